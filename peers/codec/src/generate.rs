//! Realistic messages from a seed, as prost's types: ids of all magnitudes, words and paths, a few texts beyond ASCII.

use base::prng::Prng;

use crate::peers::prost::owned::{log, micro, nested, wide};

const WORDS: [&str; 32] = [
    "cart", "ledger", "auth", "search", "media", "index", "relay", "quota", "shard", "mirror", "batch",
    "stream", "cache", "token", "queue", "vault", "north", "delta", "ember", "harbor", "willow", "onyx",
    "saffron", "timber", "copper", "meadow", "summit", "lagoon", "quartz", "prairie", "beacon", "canyon",
];
const BEYOND_ASCII: [&str; 6] = ["café", "naïve", "Żółw", "東京", "данные", "🚀"];
const METHODS: [&str; 5] = ["GET", "GET", "GET", "POST", "DELETE"];
const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148",
    "curl/8.7.1",
    "internal-probe/2.14 (health)",
];

fn pick<'a>(prng: &mut Prng, of: &[&'a str]) -> &'a str {
    of[prng.below(of.len() as u64) as usize]
}

/// A number in `from..=to`.
fn between(prng: &mut Prng, from: u64, to: u64) -> u64 {
    from + prng.below(to - from + 1)
}

/// A number whose magnitude is random too: varints of all lengths up to `bits`.
fn any_magnitude(prng: &mut Prng, bits: u64) -> u64 {
    let bits = between(prng, 1, bits);
    prng.next_u64() >> (64 - bits)
}

/// As `any_magnitude`, on both sides of zero.
fn either_sign(prng: &mut Prng, bits: u64) -> i64 {
    let magnitude = any_magnitude(prng, bits) as i64;
    if prng.chance(0.5) { -magnitude } else { magnitude }
}

/// Words joined by `joint`; one word in 40 is beyond ASCII where `any_script`.
fn words(prng: &mut Prng, count: u64, joint: &str, any_script: bool) -> String {
    let mut out = String::new();
    for at in 0..count {
        if at > 0 {
            out.push_str(joint);
        }
        let foreign = any_script && prng.chance(1.0 / 40.0);
        out.push_str(pick(prng, if foreign { &BEYOND_ASCII } else { &WORDS }));
    }
    out
}

fn name(prng: &mut Prng, words_to: u64) -> String {
    let count = between(prng, 1, words_to);
    format!("{}-{}", words(prng, count, "-", false), prng.below(1000))
}

fn bytes(prng: &mut Prng, length: u64) -> Vec<u8> {
    let mut out = vec![0; length as usize];
    prng.fill(&mut out);
    out
}

fn list<T>(prng: &mut Prng, count: u64, item: impl FnMut(&mut Prng) -> T) -> Vec<T> {
    let mut item = item;
    (0..count).map(|_| item(prng)).collect()
}

/// Microseconds of some moment in late 2026.
fn moment_us(prng: &mut Prng) -> u64 {
    1_790_000_000_000_000 + prng.below(1 << 42)
}

/// A log record.
pub fn log_record(prng: &mut Prng) -> log::LogRecord {
    let received_us = moment_us(prng);
    let host = name(prng, 2);
    let sentence = between(prng, 20, 52);
    let depth = between(prng, 2, 6);
    log::LogRecord {
        timestamp_ns: received_us * 1000 - prng.below(5_000_000),
        received_us: received_us as i64,
        severity: between(prng, 1, 4) as i32,
        service: words(prng, 2, "-", false),
        host: format!("{host}.dc{}.internal", prng.below(9)),
        region: format!("eu-{}-{}", pick(prng, &["west", "north", "central"]), prng.below(4)),
        process_id: prng.below(1 << 22) as u32,
        thread_id: any_magnitude(prng, 40),
        trace_id: bytes(prng, 16),
        span_id: bytes(prng, 8),
        method: pick(prng, &METHODS).into(),
        path: format!("/v1/{}?page={}", words(prng, depth, "/", false), prng.below(50)),
        transport: between(prng, 1, 3) as i32,
        status: [200, 200, 200, 204, 304, 404, 503][prng.below(7) as usize],
        request_bytes: any_magnitude(prng, 16),
        response_bytes: any_magnitude(prng, 24),
        clock_skew_us: either_sign(prng, 12) as i32,
        duration_ms: prng.unit_f64() * 120.0,
        load: prng.unit_f64() as f32,
        sampled: prng.chance(0.1),
        cache_hit: prng.chance(0.7),
        user_agent: pick(prng, &AGENTS).into(),
        client_address: format!("10.{}.{}.{}", prng.below(256), prng.below(256), prng.below(256)),
        attempt: prng.below(3) as i32,
        text: words(prng, sentence, " ", true),
    }
}

fn labels(prng: &mut Prng) -> Vec<nested::Label> {
    let count = prng.below(6);
    list(prng, count, |prng| nested::Label {
        key: pick(prng, &WORDS).into(),
        value: name(prng, 2),
        weight: any_magnitude(prng, 14) as u32,
    })
}

/// Ten levels; `outer! { Fleet Region … }` builds the first around the rest.
macro_rules! outer {
    ($prng:ident: $message:ident) => {
        outer!(@ $prng: $message {})
    };
    ($prng:ident: $message:ident $($rest:ident)+) => {{
        let inner = outer!($prng: $($rest)+);
        outer!(@ $prng: $message { inner: Some(inner) })
    }};
    (@ $prng:ident: $message:ident { $($inner:tt)* }) => {
        nested::$message {
            id: any_magnitude($prng, 48),
            name: name($prng, 4),
            owner: format!("{}@{}.example", words($prng, 2, ".", true), pick($prng, &WORDS)),
            rank: either_sign($prng, 10) as i32,
            labels: labels($prng),
            $($inner)*
        }
    };
}

/// Ten nested messages.
pub fn fleet(prng: &mut Prng) -> nested::Fleet {
    outer!(prng: Fleet Region Zone Cluster Rack Machine Process Service Endpoint Call)
}

/// A batch of columns.
pub fn batch(prng: &mut Prng) -> wide::Batch {
    let body = between(prng, 2048, 4096);
    let parts = between(prng, 1, 3);
    let start_us = moment_us(prng);
    wide::Batch {
        id: prng.next_u64(),
        source: name(prng, 3),
        counts: list(prng, 256, |prng| any_magnitude(prng, 12) as i32),
        positions: list(prng, 128, |prng| either_sign(prng, 50)),
        samples: list(prng, 192, |prng| prng.unit_f64() * 1000.0 - 500.0),
        deltas: list(prng, 256, |prng| either_sign(prng, 11) as i32),
        drifts: list(prng, 64, |prng| either_sign(prng, 40)),
        weights: list(prng, 128, |prng| prng.unit_f64() as f32),
        hashes: list(prng, 64, |prng| prng.next_u64() as u32),
        flags: list(prng, 64, |prng| prng.chance(0.3)),
        names: list(prng, 40, |prng| name(prng, 3)),
        stamps_us: list(prng, 64, |prng| start_us + prng.below(1 << 20)),
        body: bytes(prng, body),
        parts: list(prng, parts, |prng| bytes(prng, 512)),
    }
}

fn request_id(prng: &mut Prng) -> i64 {
    (prng.next_u64() >> 2) as i64
}

/// A request for a unique id.
pub fn unique_id(prng: &mut Prng) -> micro::UniqueIdRequest {
    micro::UniqueIdRequest {
        request_id: request_id(prng),
        trace: prng.next_u64(),
        kind: prng.below(4) as i32,
        machine: prng.below(4096) as u32,
        caller: words(prng, 2, "-", false),
    }
}

/// A login.
pub fn login(prng: &mut Prng) -> micro::LoginRequest {
    micro::LoginRequest {
        request_id: request_id(prng),
        trace: prng.next_u64(),
        username: name(prng, 2),
        password_hash: bytes(prng, 32),
        device: pick(prng, &["android 14; pixel", "ios 17.5", "web", "desktop 4.2.1 linux"]).into(),
        remember: prng.chance(0.5),
    }
}

/// A few long addresses to shorten.
pub fn shorten(prng: &mut Prng) -> micro::ShortenRequest {
    let urls = between(prng, 1, 3);
    micro::ShortenRequest {
        request_id: request_id(prng),
        trace: prng.next_u64(),
        urls: list(prng, urls, |prng| {
            let depth = between(prng, 1, 4);
            format!("https://{}.example/{}", pick(prng, &WORDS), words(prng, depth, "/", false))
        }),
        lifetime_s: any_magnitude(prng, 20) as u32,
    }
}

/// One user follows another.
pub fn follow(prng: &mut Prng) -> micro::FollowRequest {
    micro::FollowRequest {
        request_id: request_id(prng),
        trace: prng.next_u64(),
        user_id: any_magnitude(prng, 32) as i64,
        followee_id: any_magnitude(prng, 32) as i64,
        user_name: name(prng, 2),
        followee_name: name(prng, 2),
        at_us: moment_us(prng) as i64,
    }
}

/// A post of a few words, with media and mentions.
pub fn compose_post(prng: &mut Prng) -> micro::ComposePostRequest {
    let sentence = between(prng, 6, 16);
    let media = prng.below(3);
    let mentions = prng.below(3);
    micro::ComposePostRequest {
        request_id: request_id(prng),
        trace: prng.next_u64(),
        user_id: any_magnitude(prng, 32) as i64,
        username: name(prng, 2),
        text: words(prng, sentence, " ", true),
        media_ids: list(prng, media, |prng| any_magnitude(prng, 48) as i64),
        media_types: list(prng, media, |prng| pick(prng, &["png", "jpg", "mp4"]).into()),
        kind: prng.below(4) as i32,
        mentions: list(prng, mentions, |prng| micro::Mention {
            user_id: any_magnitude(prng, 32) as i64,
            name: name(prng, 1),
        }),
    }
}
