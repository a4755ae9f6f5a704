//! The administrative commands: statistics, dumps, limits, and the knobs of memcached's slabs and LRU.
//!
//! Slabs and LRU segments do not exist here. Their commands are still checked as memcached checks them, so that scripts
//! which set them go on working, and are answered without effect.

use super::classic::{Parsed, error, malformed};
use super::command::{Command, Dump, Shutdown, Stats};
use super::exptime::Exptime;
use super::lines::Line;
use super::number::decimal_u32;
use super::tokens::Tokens;
use super::watch::Streams;

/// Slab classes that memcached knows at most.
const SLAB_CLASSES: u32 = 64;
/// Microseconds that the crawler may sleep between items.
const CRAWLER_SLEEP_MAX_US: u32 = 1_000_000;

/// Understands a line whose verb is none of the data commands.
#[cold]
pub(super) fn parse<'a>(verb: &'a [u8], tokens: Tokens<'a>) -> Parsed<'a> {
    let command = match verb {
        b"stats" => stats(tokens),
        b"version" => Command::Version,
        b"quit" => Command::Quit,
        b"flush_all" => flush_all(tokens),
        b"verbosity" => verbosity(tokens),
        b"cache_memlimit" => cache_memlimit(tokens),
        b"shutdown" => Command::Shutdown(shutdown(tokens)),
        b"lru_crawler" => lru_crawler(tokens),
        b"lru" => lru(tokens),
        b"slabs" => slabs(tokens),
        b"watch" => watch(tokens),
        _ if tokens.last_word().unwrap_or(verb).starts_with(b"HTTP/") => return Parsed::Http,
        _ => return error(),
    };
    Parsed::Command(command)
}

fn ends_in_noreply(tokens: Tokens<'_>) -> bool {
    tokens.last_word() == Some(b"noreply")
}

/// Without a word memcached shows what is looked up.
fn watch(mut tokens: Tokens<'_>) -> Command<'_> {
    let all = tokens;
    let Some(first) = tokens.next() else { return Command::Watch(Streams::FETCHERS) };
    let words = std::iter::once(first).chain(tokens);
    let streams = words.map(Streams::named).try_fold(Streams::default(), |all, named| Some(all.and(named?)));
    let noreply = ends_in_noreply(all);
    streams.map_or(Command::Malformed { line: Line::Error, noreply }, Command::Watch)
}

fn answered<'a>(line: Line, tokens: Tokens<'a>) -> Command<'a> {
    Command::Answered { line, noreply: ends_in_noreply(tokens) }
}

fn flush_all(mut tokens: Tokens<'_>) -> Command<'_> {
    let noreply = ends_in_noreply(tokens);
    let words = tokens.count();
    if words > 2 {
        return malformed(Line::Error);
    }
    if words == usize::from(noreply) {
        return Command::FlushAll { delay: Exptime::NEVER, noreply, header: b"" };
    }
    match tokens.next().and_then(Exptime::parse) {
        Some(delay) => Command::FlushAll { delay, noreply, header: b"" },
        None => Command::Malformed { line: Line::InvalidExptime, noreply },
    }
}

fn verbosity(mut tokens: Tokens<'_>) -> Command<'_> {
    let noreply = ends_in_noreply(tokens);
    if !(1..=2).contains(&tokens.count()) {
        return malformed(Line::Error);
    }
    match tokens.next().and_then(decimal_u32) {
        Some(level) => Command::Verbosity { level, noreply },
        None => Command::Malformed { line: Line::BadFormat, noreply },
    }
}

fn cache_memlimit(mut tokens: Tokens<'_>) -> Command<'_> {
    let noreply = ends_in_noreply(tokens);
    if !(1..=2).contains(&tokens.count()) {
        return malformed(Line::Error);
    }
    let line = match tokens.next().and_then(super::number::decimal) {
        None => Line::Error,
        Some(..8) => Line::MemlimitTooSmall,
        Some(mib @ 8..=1_000_000_000) => return Command::CacheMemlimit { mib: mib as u32, noreply },
        Some(_) => Line::MemlimitInBytes,
    };
    Command::Malformed { line, noreply }
}

fn shutdown(mut tokens: Tokens<'_>) -> Shutdown {
    match (tokens.next(), tokens.next()) {
        (None, _) => Shutdown::Now,
        (Some(b"graceful"), None) => Shutdown::Graceful,
        _ => Shutdown::Unknown,
    }
}

fn stats(mut tokens: Tokens<'_>) -> Command<'_> {
    let Some(family) = tokens.next() else { return Command::Stats(Stats::General) };
    Command::Stats(match family {
        b"settings" => Stats::Settings,
        b"items" => Stats::Items,
        b"slabs" => Stats::Slabs,
        b"sizes" => Stats::Sizes,
        b"sizes_enable" => Stats::SizesEnable,
        b"sizes_disable" => Stats::SizesDisable,
        b"conns" => Stats::Conns,
        b"reset" => Stats::Reset,
        b"detail" => match tokens.next() {
            Some(b"on") => Stats::DetailOn,
            Some(b"off") => Stats::DetailOff,
            Some(b"dump") => Stats::DetailDump,
            _ => return malformed(Line::StatsDetailUsage),
        },
        b"cachedump" => match (tokens.next(), tokens.next()) {
            (Some(class), Some(limit)) => match (decimal_u32(class), decimal_u32(limit)) {
                (Some(class), Some(limit)) if class < SLAB_CLASSES => Stats::Cachedump { class, limit },
                (Some(_), Some(_)) => return malformed(Line::IllegalSlab),
                _ => return malformed(Line::BadFormat),
            },
            _ => return malformed(Line::BadLine),
        },
        other => Stats::Other(other),
    })
}

fn lru_crawler(mut tokens: Tokens<'_>) -> Command<'_> {
    let (Some(verb), argument, None) = (tokens.next(), tokens.next(), tokens.next()) else {
        return malformed(Line::Error);
    };
    let line = match (verb, argument) {
        (b"metadump", Some(classes)) => return Command::Dump(Dump { classes, as_meta_get: false }),
        (b"mgdump", Some(classes)) => return Command::Dump(Dump { classes, as_meta_get: true }),
        (b"enable" | b"disable", None) | (b"crawl", Some(_)) => Line::Ok,
        (b"tocrawl" | b"sleep", Some(number)) => match decimal_u32(number) {
            None => return malformed(Line::BadFormat),
            Some(us) if verb == b"sleep" && us > CRAWLER_SLEEP_MAX_US => {
                return malformed(Line::SleepTooLong);
            }
            Some(_) => Line::Ok,
        },
        _ => return malformed(Line::Error),
    };
    Command::Answered { line, noreply: false }
}

fn lru(mut tokens: Tokens<'_>) -> Command<'_> {
    let all = tokens;
    let line = match (tokens.next(), tokens.next()) {
        (Some(b"mode"), Some(b"flat" | b"segmented")) => Line::Ok,
        (Some(b"temp_ttl"), Some(ttl)) if Exptime::parse(ttl).is_some() => Line::Ok,
        (Some(b"tune"), Some(hot)) => lru_tune(hot, tokens),
        _ => Line::Error,
    };
    if line == Line::Ok {
        answered(line, all)
    } else {
        Command::Malformed { line, noreply: ends_in_noreply(all) }
    }
}

fn lru_tune(hot_percent: &[u8], mut tokens: Tokens<'_>) -> Line {
    let (Some(warm), Some(hot_factor), Some(warm_factor)) = (tokens.next(), tokens.next(), tokens.next())
    else {
        return Line::Error;
    };
    let numbers = (decimal_u32(hot_percent), decimal_u32(warm), fraction(hot_factor), fraction(warm_factor));
    let (Some(hot), Some(warm), Some(hot_factor), Some(warm_factor)) = numbers else { return Line::Error };
    if hot.saturating_add(warm) > 80 {
        Line::LruPercent
    } else if hot_factor <= 0.0 || warm_factor <= 0.0 {
        Line::LruFactor
    } else {
        Line::Ok
    }
}

fn fraction(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn slabs(mut tokens: Tokens<'_>) -> Command<'_> {
    let all = tokens;
    match (tokens.next(), tokens.next()) {
        (Some(b"reassign"), Some(_)) if tokens.count() == 1 => answered(Line::NoSlabs, all),
        (Some(b"automove"), Some(level)) => {
            let line = match (level, tokens.next().and_then(fraction), decimal_u32(level)) {
                (b"ratio", Some(_), _) | (_, _, Some(0..=2)) => Line::Ok,
                (b"ratio", None, _) | (_, _, Some(_)) => Line::Error,
                (_, _, None) => Line::BadFormat,
            };
            answered(line, all)
        }
        _ => malformed(Line::Error),
    }
}
