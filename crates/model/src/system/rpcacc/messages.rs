//! The messages of the evaluation: HyperProtoBench and DeathStarBench.
//!
//! HyperProtoBench (Google, MICRO 2021) is six benches of ten messages, synthetic, after six services. Its files give schemas and values, of which
//! the paper says that there are six of ten, and that M4 and M10 of bench 2 are flat with 1.6 and 0.6 MB. Here each bench is a *profile*
//! (table `messages` of the platform): how many
//! fields, how deep, how long its strings are; ten messages are drawn from it by a fixed stream. Profiles were set so that the bytes of a bench are
//! near the size of its value file (bench 0: 1.42 MB, 1: 67 KB, 3: 734 KB, 4: 932 KB of text) and its messages look like those at the
//! file's beginning; bench 5, whose file we have not seen, is taken to be of small fields, as that kind is otherwise absent.
//!
//! DeathStarBench: requests and replies of five services of its social network, from its interface definition; lengths from its load scripts.

use super::shape::Shape;
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};
use base::Prng;

/// Ranges that a bench's messages are drawn from, evenly in the logarithm: the fewest and the most.
struct Profile {
    objects: (u64, u64),
    depth: (u64, u64),
    scalars: (u64, u64),
    strings: (u64, u64),
    length: (u64, u64),
}

impl Profile {
    fn load(platform: &Platform, bench: u64) -> Result<Profile, LoadError> {
        let ends = |of: &str, read: fn(&Platform, &str) -> Result<u64, LoadError>| {
            let end = |which: &str| read(platform, &format!("messages.bench{bench}.{of}_{which}"));
            let (least, most) = (end("least")?.max(1), end("most")?);
            Ok::<_, LoadError>((least, most.max(least)))
        };
        Ok(Profile {
            objects: ends("objects", Platform::count)?,
            depth: ends("depth", Platform::count)?,
            scalars: ends("scalars", Platform::count)?,
            strings: ends("strings", Platform::count)?,
            length: ends("length", Platform::bytes)?,
        })
    }
}

/// Benches.
const BENCHES: u64 = 6;
/// Messages of a bench.
const MESSAGES: u64 = 10;
/// The stream of the draws: part of the experiments, not of a run's seed.
const STREAM: u64 = 2021;

/// A number in `from..=to`, each octave as likely as the next.
fn draw(prng: &mut Prng, (from, to): (u64, u64)) -> u64 {
    let octaves = (to / from).max(1).ilog2();
    let low = from << prng.below(u64::from(octaves) + 1);
    (low + prng.below(low)).min(to)
}

/// Bench `number`'s messages M1 … M10.
///
/// # Errors
/// The platform lacks a number; so in all that follow.
pub fn hyperprotobench(platform: &Platform, number: u64) -> Result<Vec<Shape>, LoadError> {
    let profile = Profile::load(platform, number)?;
    let message = |i: u64| {
        let name = format!("M{i}");
        match (number, i) {
            // "M4 = 1.6 MB, M10 = 0.6 MB", flat.
            (2, 4) => return Shape::flat(&name, 8, &[400_000; 4]),
            (2, 10) => return Shape::flat(&name, 8, &[300_000; 2]),
            _ => {}
        }
        let prng = &mut Prng::for_entity(STREAM, number, i);
        let objects = draw(prng, profile.objects);
        let strings = draw(prng, profile.strings);
        Shape {
            name,
            objects,
            // Where there are messages in the message there are two levels.
            depth: draw(prng, profile.depth).max(2).min(objects),
            scalars: draw(prng, profile.scalars),
            strings: (0..strings).map(|_| draw(prng, profile.length)).collect(),
        }
    };
    Ok((1..=MESSAGES).map(message).collect())
}

/// All six benches.
pub fn all_benches(platform: &Platform) -> Result<Vec<(String, Vec<Shape>)>, LoadError> {
    (0..BENCHES).map(|i| Ok((format!("bench{i}"), hyperprotobench(platform, i)?))).collect()
}

/// A service of DeathStarBench's social network.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// As the paper writes it.
    pub name: &'static str,
    /// What comes.
    pub request: Shape,
    /// What goes.
    pub reply: Shape,
    /// Cycles of a core for what the service itself does, storage excluded.
    pub cycles: f64,
}

/// Key and value of a tracing carrier, and the map entry that holds them.
const CARRIER: [u64; 2] = [13, 52];

fn message(name: &str, objects: u64, scalars: u64, strings: &[u64]) -> Shape {
    let strings = CARRIER.iter().chain(strings).copied().collect();
    Shape { name: name.into(), objects: objects + 1, depth: 2, scalars, strings }
}

/// The five services.
pub fn deathstarbench(platform: &Platform) -> Result<[Service; 5], LoadError> {
    let service = |name, request, reply, handler: &str| {
        let cycles = platform.value(&format!("handlers.{handler}"), Dimension::Cycles)?;
        Ok::<_, LoadError>(Service { name, request, reply, cycles })
    };
    // A post as the mixed workload composes it: 256 characters, up to five mentions (" @username_962"), URLs of 64 characters (" http://…")
    // and media: half of them on average.
    const POST: u64 = 256 + 2 * 14 + 2 * 72;
    Ok([
        service("UniqueId", message("request", 1, 2, &[]), Shape::flat("reply", 1, &[]), "unique_id")?,
        // RegisterUser hashes a password; ComposeCreatorWithUserId, which every post needs, hashes nothing.
        service(
            "User",
            message("request", 1, 2, &[12]),
            Shape { objects: 2, depth: 2, ..Shape::flat("reply", 1, &[12]) },
            "user",
        )?,
        service(
            "UrlShorten",
            message("request", 1, 1, &[72, 72, 72]),
            Shape { objects: 4, depth: 2, ..Shape::flat("reply", 0, &[25, 72, 25, 72, 25, 72]) },
            "url_shorten",
        )?,
        // GetFollowers: the mean degree of the socfb-Reed98 graph that the benchmark loads: 18.8 k edges of 962 users, both ways.
        service("SocialGraph", message("request", 1, 2, &[]), Shape::flat("reply", 39, &[]), "social_graph")?,
        service(
            "ComposePost",
            message("request", 1, 6, &[12, POST, 18, 18]),
            Shape {
                objects: 8,
                depth: 3,
                ..Shape::flat("reply", 10, &[12, POST, 12, 12, 25, 72, 25, 72, 3, 3])
            },
            "compose_post",
        )?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platforms;

    #[test]
    fn benches_have_the_sizes_that_are_known() {
        let platform = Platforms::shipped().named("pcie-rpc-accelerator").expect("it is shipped");
        let bench = |number| hyperprotobench(&platform, number).expect("it is complete");
        let bytes = |number| bench(number).iter().map(Shape::wire).sum::<u64>() as f64;
        for (bench, text) in [(0, 1.42e6), (1, 67e3), (3, 734e3), (4, 932e3)] {
            let ratio = bytes(bench) / text;
            assert!((0.3..1.1).contains(&ratio), "bench {bench}: {ratio} of the file's text");
        }
        let bench2 = bench(2);
        assert_eq!((bench2[3].wire() / 100_000, bench2[9].wire() / 100_000), (16, 6));
        assert!(bench2.iter().enumerate().all(|(i, shape)| i == 3 || i == 9 || shape.wire() < 3000));
        assert!(
            all_benches(&platform).expect("it is complete").iter().all(|(_, messages)| messages.len() == 10)
        );
    }
}
