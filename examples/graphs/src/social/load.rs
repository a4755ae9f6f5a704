//! What users of the social network do, as DeathStarBench's workload has them: texts of 256 letters with up to five mentions, five addresses of 71
//! bytes and four media; timelines of ten posts.

use super::*;
use crate::load::{KINDS, Requests};
use base::Prng;
use fabric::channel::{CallId, CallOptions, Channel, Event, StartError};
use fabric::status::{Code, Status};

/// See the file's head.
pub struct Users {
    site: SiteClient,
    /// Of a hundred requests.
    shares: [u64; KINDS],
    asked: i64,
}

const NAMES: [&str; KINDS] = ["compose a post", "read a home timeline", "read a user's timeline"];

impl Users {
    /// # Errors
    /// The channel leads elsewhere.
    pub fn new(channel: &Channel, shares: [u64; KINDS]) -> Result<Users, Failure> {
        Ok(Users { site: SiteClient::new(channel)?, shares, asked: 0 })
    }
}

pub(crate) fn letters(random: &mut Prng, count: usize) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
    (0..count).map(|_| char::from(LETTERS[random.below(32) as usize])).collect()
}

/// A post's text.
pub fn text(random: &mut Prng) -> String {
    let mut text = letters(random, 256);
    for _ in 0..random.below(6) {
        text.push_str(&format!(" @{}", username(random.below(USERS) as i64)));
    }
    for _ in 0..random.below(6) {
        text.push_str(&format!(" http://{}", letters(random, 64)));
    }
    text
}

impl Requests for Users {
    fn kinds(&self) -> [(&'static str, u64); KINDS] {
        std::array::from_fn(|kind| (NAMES[kind], self.shares[kind]))
    }

    fn start(
        &mut self,
        kind: usize,
        channel: &mut Channel,
        options: &CallOptions<'_>,
        user: u64,
        random: &mut Prng,
    ) -> Result<CallId, StartError> {
        let (req_id, user_id) = (self.asked, random.below(USERS) as i64);
        let read = |request: &mut ReadTimelineRequestMut<'_, '_>| {
            request.set_req_id(req_id);
            request.set_user_id(user_id);
            request.set_stop(10);
            Ok(())
        };
        let call = match kind {
            0 => self.site.compose_post_async(channel, options, user, |request| {
                request.set_req_id(req_id);
                request.set_username(&username(user_id))?;
                request.set_user_id(user_id);
                request.set_text(&text(random))?;
                for _ in 0..random.below(5) {
                    request.push_media_ids((random.next_u64() >> 4) as i64)?;
                    request.push_media_types("png")?;
                }
                Ok(())
            }),
            1 => self.site.read_home_timeline_async(channel, options, user, read),
            _ => self.site.read_user_timeline_async(channel, options, user, read),
        };
        self.asked += i64::from(call.is_ok());
        call
    }

    fn check(&self, kind: usize, event: &mut Event<'_>) -> Result<(), Status> {
        if kind == 0 {
            return event.message::<Done>().map(drop);
        }
        match wrong(event.message::<Posts>()?) {
            None => Ok(()),
            Some(what) => Err(Status::new(Code::DataLoss, what)),
        }
    }
}

/// What is wrong with posts of a timeline.
fn wrong(posts: PostsView<'_>) -> Option<&'static str> {
    if posts.posts().len() > 10 {
        return Some("more posts than were asked for");
    }
    for post in posts.posts().iter() {
        let creator = post.creator().map(|creator| (creator.user_id(), creator.username()));
        if creator.is_none_or(|(user, name)| user_of(name) != Some(user)) {
            return Some("a post is not its user's");
        }
        let is_long = |word: &str| word.len() == 71 && word.starts_with("http://");
        if post.text().len() < 256 || post.text().split(' ').any(is_long) {
            return Some("an address was not shortened, or words are lost");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::memory::Arena;
    use codec::typed::Message;

    /// What is wrong with so many posts of user 3 under that name.
    fn of(count: usize, name: &str, text: &str) -> Option<&'static str> {
        let arena = Arena::default();
        let mut posts = Posts::new(&arena).expect("room");
        for _ in 0..count {
            let mut post = posts.push_posts().expect("room");
            let mut creator = post.creator_mut().expect("room");
            creator.set_user_id(3);
            creator.set_username(name).expect("room");
            post.set_text(text).expect("room");
        }
        wrong(Posts::freeze(posts))
    }

    #[test]
    fn planted_bugs_are_found() {
        let mut random = Prng::new(1);
        let plain = letters(&mut random, 256);
        let long = format!("{plain} http://{}", letters(&mut random, 64));
        assert_eq!(of(10, "username_3", &plain), None);
        assert!(of(11, "username_3", &plain).is_some());
        assert!(of(1, "username_4", &plain).is_some());
        assert!(of(1, "username_3", &plain[1..]).is_some());
        assert!(of(1, "username_3", &long).is_some());
    }
}
