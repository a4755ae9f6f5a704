//! Compose, which puts a post together and has it written everywhere, and text, which has addresses and mentions in it resolved.

use super::*;
use crate::asks::{Asks, Job, built};
use crate::tier::{Beside, Peer};
use codec::typed::Owned;
use fabric::service::Context;
use fabric::status::Status;
use fabric::stub::{Deferred, NotServed};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Finds what is to be resolved in a text.
pub struct Texts {
    asks: Asks,
    urls: Peer<UrlShortenClient>,
    mentions: Peer<UserMentionsClient>,
}

impl Texts {
    pub fn new(beside: &Beside<'_>) -> Result<Texts, NotServed> {
        let urls = beside.peer(0, &URL_SHORTEN, UrlShortenClient::new)?;
        let mentions = beside.peer(1, &USER_MENTIONS, UserMentionsClient::new)?;
        Ok(Texts { asks: beside.asks.clone(), urls, mentions })
    }
}

fn is_url(word: &str) -> bool {
    word.starts_with("http://") || word.starts_with("https://")
}

/// The words that begin with @, without it.
fn mentioned(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ').filter_map(|word| word.strip_prefix('@'))
}

/// The text with its long addresses replaced, in their order.
pub(super) fn shortened<'a>(text: &str, mut short: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 {
            out.push(' ');
        }
        out.push_str(if is_url(word) { short.next().unwrap_or(word) } else { word });
    }
    out
}

impl Text for Texts {
    fn compose_text(
        &self,
        request: TextRequestView<'_>,
        reply: Deferred<TextReply>,
        context: &mut Context<'_>,
    ) {
        let mut job = self.asks.job(context);
        let (req_id, text) = (request.req_id(), request.text().to_owned());
        let (urls, mentions) = (self.urls, self.mentions);
        self.asks.spawn(async move {
            let long: Vec<String> = text.split(' ').filter(|word| is_url(word)).map(str::to_owned).collect();
            let names: Vec<String> = mentioned(&text).map(str::to_owned).collect();
            let short = job.ask::<UrlsReply>(urls.to("ComposeUrls"), move |channel, options, at| {
                urls.client.compose_urls_async(channel, options, at, |request| {
                    built(request, |request| {
                        request.set_req_id(req_id);
                        long.iter().try_for_each(|url| request.push_urls(url).map(drop))
                    })
                })
            });
            let users =
                job.ask::<MentionsReply>(mentions.to("ComposeUserMentions"), move |channel, options, at| {
                    mentions.client.compose_user_mentions_async(channel, options, at, |request| {
                        built(request, |request| {
                            request.set_req_id(req_id);
                            names.iter().try_for_each(|name| request.push_usernames(name).map(drop))
                        })
                    })
                });
            let (short, users) = (job.answer(short).await, job.answer(users).await);
            let outcome = short.and_then(|short| Ok((short, users?)));
            job.reply(reply, outcome, |reply, (short, users)| {
                let urls = short.view().urls();
                reply.set_text(&shortened(&text, urls.iter().map(|url| url.shortened_url())))?;
                let mentions = users.view().user_mentions();
                mentions
                    .iter()
                    .try_for_each(|mention| copy_mention(mention, &mut reply.push_user_mentions()?))?;
                urls.iter().try_for_each(|url| copy_url(url, &mut reply.push_urls()?))
            });
        });
    }
}

/// Puts posts together.
pub struct Composer {
    asks: Asks,
    peers: Peers,
}

#[derive(Clone, Copy)]
struct Peers {
    unique_id: Peer<UniqueIdClient>,
    user: Peer<UserClient>,
    media: Peer<MediaServiceClient>,
    text: Peer<TextClient>,
    storage: Peer<PostStorageClient>,
    by_user: Peer<UserTimelineClient>,
    home: Peer<HomeTimelineClient>,
}

impl Composer {
    pub fn new(beside: &Beside<'_>) -> Result<Composer, NotServed> {
        let peers = Peers {
            unique_id: beside.peer(0, &UNIQUE_ID, UniqueIdClient::new)?,
            user: beside.peer(1, &USER, UserClient::new)?,
            media: beside.peer(2, &MEDIA_SERVICE, MediaServiceClient::new)?,
            text: beside.peer(3, &TEXT, TextClient::new)?,
            storage: beside.peer(4, &POST_STORAGE, PostStorageClient::new)?,
            by_user: beside.peer(5, &USER_TIMELINE, UserTimelineClient::new)?,
            home: beside.peer(6, &HOME_TIMELINE, HomeTimelineClient::new)?,
        };
        Ok(Composer { asks: beside.asks.clone(), peers })
    }
}

/// What is asked for.
struct Draft {
    req_id: i64,
    user_id: i64,
    username: String,
    text: String,
    media_ids: Vec<i64>,
    media_types: Vec<String>,
    post_type: PostType,
}

/// What four services made of a draft.
struct Composed {
    post_id: i64,
    creator: Owned<Creator>,
    media: Owned<MediaReply>,
    text: Owned<TextReply>,
    req_id: i64,
    timestamp: i64,
    post_type: PostType,
}

impl Composed {
    fn fill(&self, post: &mut PostMut<'_, '_>) -> Result<(), OutOfMemory> {
        post.set_post_id(self.post_id);
        let (creator, text) = (self.creator.view(), self.text.view());
        let mut copy = post.creator_mut()?;
        copy.set_user_id(creator.user_id());
        copy.set_username(creator.username())?;
        post.set_req_id(self.req_id);
        post.set_text(text.text())?;
        text.user_mentions()
            .iter()
            .try_for_each(|user| copy_mention(user, &mut post.push_user_mentions()?))?;
        self.media.view().media().iter().try_for_each(|media| copy_media(media, &mut post.push_media()?))?;
        text.urls().iter().try_for_each(|url| copy_url(url, &mut post.push_urls()?))?;
        post.set_timestamp(self.timestamp);
        post.set_post_type(self.post_type);
        Ok(())
    }
}

impl Compose for Composer {
    fn compose_post(
        &self,
        request: ComposePostRequestView<'_>,
        reply: Deferred<Done>,
        context: &mut Context<'_>,
    ) {
        let mut job = self.asks.job(context);
        let draft = Draft {
            req_id: request.req_id(),
            user_id: request.user_id(),
            username: request.username().to_owned(),
            text: request.text().to_owned(),
            media_ids: request.media_ids().to_vec(),
            media_types: request.media_types().iter().map(str::to_owned).collect(),
            post_type: request.post_type(),
        };
        let peers = self.peers;
        self.asks.spawn(async move {
            let outcome = match compose(&mut job, &peers, draft).await {
                Ok(composed) => publish(&mut job, &peers, composed).await,
                Err(status) => Err(status),
            };
            job.reply(reply, outcome, |_, ()| Ok(()));
        });
    }
}

/// Asks four services at once.
async fn compose(job: &mut Job, peers: &Peers, draft: Draft) -> Result<Composed, Status> {
    let Draft { req_id, user_id, username, text, media_ids, media_types, post_type } = draft;
    let Peers { unique_id, user, media, text: texts, .. } = *peers;
    let text = job.ask::<TextReply>(texts.to("ComposeText"), move |channel, options, at| {
        texts.client.compose_text_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(req_id);
                request.set_text(&text)
            })
        })
    });
    let creator = job.ask::<Creator>(user.to("ComposeCreatorWithUserId"), move |channel, options, at| {
        user.client.compose_creator_with_user_id_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(req_id);
                request.set_user_id(user_id);
                request.set_username(&username)
            })
        })
    });
    let media = job.ask::<MediaReply>(media.to("ComposeMedia"), move |channel, options, at| {
        media.client.compose_media_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(req_id);
                media_types.iter().try_for_each(|kind| request.push_media_types(kind).map(drop))?;
                media_ids.iter().try_for_each(|&id| request.push_media_ids(id).map(drop))
            })
        })
    });
    let number = job.ask::<UniqueIdReply>(unique_id.to("ComposeUniqueId"), move |channel, options, at| {
        unique_id.client.compose_unique_id_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(req_id);
                request.set_post_type(post_type);
                Ok(())
            })
        })
    });
    // All are waited for, also where one has failed: none goes on when the post has ended.
    let (number, creator) = (job.answer(number).await, job.answer(creator).await);
    let (media, text) = (job.answer(media).await, job.answer(text).await);
    let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let post_id = number?.view().post_id();
    Ok(Composed { post_id, creator: creator?, media: media?, text: text?, req_id, timestamp, post_type })
}

/// Stores a post, and has it written to the timelines of its user and of whoever follows.
async fn publish(job: &mut Job, peers: &Peers, composed: Composed) -> Result<(), Status> {
    let Peers { storage, by_user, home, .. } = *peers;
    let Composed { req_id, post_id, timestamp, .. } = composed;
    let composed = Arc::new(composed);
    let post = Arc::clone(&composed);
    let stored = job.ask::<Done>(storage.to("StorePost"), move |channel, options, at| {
        storage.client.store_post_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(req_id);
                post.fill(&mut request.post_mut()?)
            })
        })
    });
    let user_id = composed.creator.view().user_id();
    let listed = job.ask::<Done>(by_user.to("Write"), move |channel, options, at| {
        by_user.client.write_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(req_id);
                request.set_post_id(post_id);
                request.set_user_id(user_id);
                request.set_timestamp(timestamp);
                Ok(())
            })
        })
    });
    let sent = job.ask::<Done>(home.to("Write"), move |channel, options, at| {
        home.client.write_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(req_id);
                request.set_post_id(post_id);
                request.set_user_id(user_id);
                request.set_timestamp(timestamp);
                let mentions = composed.text.view().user_mentions();
                mentions.iter().try_for_each(|user| request.push_user_mentions_id(user.user_id()).map(drop))
            })
        })
    });
    let (stored, listed, sent) = (job.answer(stored).await, job.answer(listed).await, job.answer(sent).await);
    stored.and(listed).and(sent).map(drop)
}
