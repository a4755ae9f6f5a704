//! The log of every server: the facade of crate `log`, one writer to standard error, as text or as JSON, from a level on.
//!
//! ```text
//!  millrace: serving memcached clients on 127.0.0.1:11211
//!  {"time":"2026-11-24T08:33:05.123456Z","level":"info","service":"kv","target":"serve::kv::in_node","message":"serving …","address":"127.0.0.1:11211"}
//! ```
//!
//! Fields (`log::info!(address:% = a; "…")`) are in JSON alone: a text says all in its sentence. Whose messages are written from which level on says
//! `--log-level`, else `MILLRACE_LOG` ([`Filter`]); of other crates' messages only warnings and errors, unless it names them. Why connections ended
//! is [`base::closing`]. What commands print on standard output (ready lines, replies) is no log and has one form.
//!
//! Invariant: a line that cannot be written (the disk that the stream goes to is full, nobody reads it any more) ends nothing and is counted; each
//! line is one write, so lines of several threads or processes do not mix.
//!
//! Cost: nothing on a request's way logs; a message below the level is one load.

use super::log_filter::Filter;
use crate::otlp::OtlpArgs;
use crate::recorder::RecordArgs;
use ::log::kv::{self, Key, Value, VisitSource};
use ::log::{Level, LevelFilter, Log, Metadata, Record};
use clap::{ArgAction, Args, ValueEnum};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Levels, as they are written and counted.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

static LOGGER: Logger = Logger;
/// What is logged of what there is no flag.
const FILTER_VARIABLE: &str = "MILLRACE_LOG";
static FILTER: OnceLock<Filter> = OnceLock::new();
static AS_JSON: AtomicBool = AtomicBool::new(false);
static SERVICE: OnceLock<&'static str> = OnceLock::new();
static WRITTEN: [AtomicU64; LEVELS.len()] = [const { AtomicU64::new(0) }; LEVELS.len()];
static LOST: AtomicU64 = AtomicU64::new(0);

/// How a server logs.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// Log lines on standard error as text, or as a JSON object each: time, level, service, target, message, fields
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: Format,

    /// Log messages of this level and those that are more severe: error, warn, info, debug, trace or off. With commas for parts of the program
    /// alone: info,connections=debug,serve::chain=trace. Default: what MILLRACE_LOG says, else info
    #[arg(long, value_name = "LEVEL[,PART=LEVEL…]")]
    pub log_level: Option<Filter>,

    /// Log more: debug messages, too; twice (-vv) memcached's connections, requests and replies
    #[arg(short = 'v', long, action = ArgAction::Count)]
    pub verbose: u8,

    /// Where metrics and spans are sent.
    #[command(flatten)]
    pub otlp: OtlpArgs,

    /// What is recorded of requests.
    #[command(flatten)]
    pub record: RecordArgs,
}

/// What a line looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

impl LogArgs {
    /// Logs as these say from now on, in the name of `service`.
    pub fn start(&self, service: &'static str) {
        install();
        self.otlp.apply();
        self.record.apply();
        // The first stays: one process is one server.
        let _ = SERVICE.set(service);
        AS_JSON.store(self.log_format == Format::Json, Ordering::Relaxed);
        if self.log_format == Format::Json {
            // A panic is a message as well, and the only one that would be no JSON.
            std::panic::set_hook(Box::new(|panic| ::log::error!("{panic}")));
        }
        let (filter, wrong) = self.filter(std::env::var(FILTER_VARIABLE).ok().as_deref());
        ::log::set_max_level(FILTER.get_or_init(|| filter).max_level());
        if let Some(why) = wrong {
            ::log::warn!("{FILTER_VARIABLE} is not heeded: {why}");
        }
    }

    /// What is logged, by the flags and what the environment says; and what is wrong with the latter.
    fn filter(&self, environment: Option<&str>) -> (Filter, Option<String>) {
        let (said, wrong) = match (&self.log_level, environment.map(str::parse)) {
            (Some(said), _) => (Some(said.clone()), None),
            (None, Some(Ok(said))) => (Some(said), None),
            (None, Some(Err(why))) => (None, Some(why)),
            (None, None) => (None, None),
        };
        let at_least =
            [LevelFilter::Off, LevelFilter::Debug, LevelFilter::Trace][usize::from(self.verbose.min(2))];
        (said.unwrap_or_default().raised(at_least), wrong)
    }
}

/// Writes text from level info on, until [`LogArgs::start`] says otherwise. A program that has a logger of its own keeps it.
pub fn install() {
    if ::log::set_logger(&LOGGER).is_ok() {
        ::log::set_max_level(LevelFilter::Info);
    }
}

/// Messages logged, by level.
pub fn counts() -> [(&'static str, u64); LEVELS.len()] {
    std::array::from_fn(|at| (LEVELS[at], WRITTEN[at].load(Ordering::Relaxed)))
}

/// In whose name is logged.
pub fn service() -> &'static str {
    SERVICE.get().copied().unwrap_or("millrace")
}

/// Messages that could not be written.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

struct Logger;

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= ::log::max_level()
            && FILTER.get_or_init(Filter::default).level_of(metadata.target()) >= metadata.level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        WRITTEN[record.level() as usize - 1].fetch_add(1, Ordering::Relaxed);
        let line = if AS_JSON.load(Ordering::Relaxed) {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            json(record, since, service())
        } else {
            text(record)
        };
        if io::stderr().write_all(line.as_bytes()).is_err() {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&self) {}
}

fn text(record: &Record<'_>) -> String {
    match record.level() {
        Level::Debug | Level::Trace => format!("millrace: {}: {}\n", word(record.level()), record.args()),
        _ => format!("millrace: {}\n", record.args()),
    }
}

fn word(level: Level) -> &'static str {
    LEVELS[level as usize - 1]
}

fn json(record: &Record<'_>, since: Duration, service: &str) -> String {
    let mut line = format!(
        "{{\"time\":\"{}\",\"level\":\"{}\",\"service\":{},\"target\":{},\"message\":{}",
        rfc3339(since),
        word(record.level()),
        quoted(service),
        quoted(record.target()),
        quoted(&record.args().to_string())
    );
    // Writing to a string does not fail.
    let _ = record.key_values().visit(&mut Fields(&mut line));
    line.push_str("}\n");
    line
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Appends fields to an object.
struct Fields<'a>(&'a mut String);

impl<'kvs> VisitSource<'kvs> for Fields<'_> {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
        let value = match (value.to_u64(), value.to_bool()) {
            (Some(number), _) => number.to_string(),
            (_, Some(is)) => is.to_string(),
            _ => quoted(&value.to_string()),
        };
        write!(self.0, ",{}:{value}", quoted(key.as_str())).map_err(kv::Error::from)
    }
}

/// A moment since 1970 in UTC, to the microsecond.
fn rfc3339(since: Duration) -> String {
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Eras of 400 years from 1 March 0000: Howard Hinnant, "chrono-compatible low-level date algorithms".
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{:06}Z",
        second % 60,
        since.subsec_micros()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::process::{Command, Stdio};

    #[test]
    fn moments_are_written_as_rfc_3339_says() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000001Z"),
            (951_782_399, "2000-02-28T23:59:59.000001Z"),
            (951_782_400, "2000-02-29T00:00:00.000001Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000001Z"),
            (1_709_251_200, "2024-03-01T00:00:00.000001Z"),
            (4_102_444_799, "2099-12-31T23:59:59.000001Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000001Z"),
        ] {
            assert_eq!(rfc3339(Duration::new(seconds, 1_500)), text, "{seconds}");
        }
    }

    #[test]
    fn a_line_has_what_was_said_and_its_fields() {
        let fields = [("port", Value::from(7)), ("path", Value::from("a\"b")), ("shared", Value::from(true))];
        let said = format_args!("one \"{}\"\nand more", 1);
        let record = |level| Record::builder().level(level).args(said).key_values(&fields).build();
        assert_eq!(text(&record(Level::Warn)), "millrace: one \"1\"\nand more\n");
        assert_eq!(text(&record(Level::Debug)), "millrace: debug: one \"1\"\nand more\n");
        let line = json(&record(Level::Info), Duration::from_secs(1), "kv");
        assert_eq!(
            line,
            "{\"time\":\"1970-01-01T00:00:01.000000Z\",\"level\":\"info\",\"service\":\"kv\",\"target\":\"\",\"message\":\"one \\\"1\\\"\\nand more\",\
             \"port\":7,\"path\":\"a\\\"b\",\"shared\":true}\n"
        );
        assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok());
    }

    #[test]
    fn flags_say_what_is_logged_before_the_environment_does() {
        let of = |log_level: Option<&str>, verbose, environment| {
            let log_level = log_level.map(|text| text.parse().expect("a filter"));
            let (filter, wrong) = LogArgs { log_level, verbose, ..LogArgs::default() }.filter(environment);
            (filter.level_of("serve::kv"), filter.level_of("connections"), wrong.is_some())
        };
        use LevelFilter::{Debug, Error, Info, Trace};
        assert_eq!(of(None, 0, None), (Info, Info, false));
        assert_eq!(of(Some("error"), 0, None), (Error, Error, false));
        assert_eq!(of(None, 1, None), (Debug, Debug, false));
        assert_eq!(of(Some("trace"), 1, None), (Trace, Trace, false));
        assert_eq!(of(None, 2, None), (Trace, Trace, false));
        assert_eq!(of(None, 0, Some("error,connections=debug")), (Error, Debug, false));
        assert_eq!(of(Some("info"), 0, Some("error,connections=debug")), (Info, Info, false));
        assert_eq!(of(None, 0, Some("loud")), (Info, Info, true));
    }

    /// Makes this test the process that logs: text or json.
    const SPEAKER: &str = "MILLRACE_TEST_LOGS";

    /// Status and standard error of a process that logs at all levels with these flags; it exits with 7.
    fn spoken(flags: &str, stderr: Stdio) -> (Option<i32>, String) {
        let program = std::env::current_exe().expect("this program");
        let name = "process::logger::tests::levels_formats_and_a_full_disk";
        let mut command = Command::new(program);
        command
            .args(["--exact", name, "--nocapture"])
            .env(SPEAKER, flags)
            .stdout(Stdio::null())
            .stderr(stderr);
        let output = command.spawn().and_then(std::process::Child::wait_with_output).expect("it runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    }

    fn speak(flags: &str) -> ! {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            log: LogArgs,
        }
        let line = <Line as clap::Parser>::parse_from(["x"].into_iter().chain(flags.split_whitespace()));
        line.log.start("test");
        ::log::error!("one");
        ::log::warn!("two");
        ::log::info!(lines = 3; "three");
        ::log::debug!("four");
        ::log::info!(target: "other::crate", "not ours");
        base::closing::log("kv", || "a client".to_owned(), &base::closing::Reason::Idle);
        ::log::warn!(target: "other::crate", "a warning of another");
        let is_json = flags.contains("json");
        assert!(!is_json || std::thread::spawn(|| panic!("five")).join().is_err());
        std::process::exit(if lost() == counts().iter().map(|(_, count)| count).sum::<u64>() {
            8
        } else {
            7
        });
    }

    #[test]
    fn levels_formats_and_a_full_disk() {
        if let Ok(flags) = std::env::var(SPEAKER) {
            speak(&flags);
        }
        let lines =
            |words: &[&str]| words.iter().map(|word| format!("millrace: {word}\n")).collect::<String>();
        let piped = |flags| spoken(flags, Stdio::piped());
        let closed = "debug: kv: a client closed: idle";
        assert_eq!(piped(""), (Some(7), lines(&["one", "two", "three", "a warning of another"])));
        assert_eq!(piped("--log-level error"), (Some(7), lines(&["one"])));
        assert_eq!(
            piped("-v"),
            (Some(7), lines(&["one", "two", "three", "debug: four", closed, "a warning of another"]))
        );
        assert_eq!(piped("--log-level error,connections=debug"), (Some(7), lines(&["one", closed])));
        let (_, text) = piped("--log-format json");
        let all: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let levels: Vec<_> = all.iter().map(|line| line["level"].as_str().expect("text")).collect();
        assert_eq!(levels, ["error", "warn", "info", "warn", "error"]);
        assert!(all[4]["message"].as_str().is_some_and(|text| text.contains("five")), "{text}");
        assert!(all.iter().all(|line| line["service"] == "test"), "{text}");
        assert_eq!((&all[2]["message"], &all[2]["lines"]), (&"three".into(), &3.into()));
        let time = all[0]["time"].as_str().expect("text");
        assert!(time.ends_with('Z') && time.starts_with("20") && time.len() == 27, "{time}");
        let full = File::options().write(true).open("/dev/full").expect("Linux has it");
        assert_eq!(spoken("", full.into()).0, Some(8), "nothing was written, and all went on");
    }
}
