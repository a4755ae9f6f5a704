//! memcached's extended options, `-o NAME` or `-o NAME=VALUE`, several with commas between them: each is obeyed, changes nothing here, or is refused with
//! what to do. `docs/memcached-differences.md` has the same in a table.

use super::registers::{Id, Registers, SetError};
use clap::Args;

/// What is said with `-o`.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct ExtendedFlags {
    /// memcached's extended options: ssl_…, idle_timeout and read_buf_mem_limit are obeyed, those of slabs and LRU change nothing
    #[arg(short = 'o', long = "extended", value_name = "NAME=VALUE,…", value_delimiter = ',')]
    extended: Vec<String>,
}

/// What becomes of an option.
enum Effect {
    /// It says something of TLS.
    Tls,
    /// Seconds of this register.
    Seconds(Id),
    /// MiB of this register, where they are not 0.
    Mebibytes(Id),
    /// KiB that wait for a watcher.
    WatcherBuffer,
    /// There is nothing to be set, since: …
    Nothing(&'static str),
    /// It cannot be, and what to do.
    Refused(&'static str),
}

/// KiB that may wait for each watcher at most.
const WATCHER_BUFFER_MAX_KIB: usize = 64 << 10;

const NO_SLABS: &str = "items lie in a log, not in slabs";
const NO_LRU: &str = "S3-FIFO evicts, and has no such queues";
const NO_CRAWLER: &str = "expired items are found without a crawler";
const NO_CHOICE_OF_HASH: &str = "the index has a hash of its own and grows by itself";
const NO_EXTSTORE: &str = "there is no extstore: give items more memory with -m, or keep what is acknowledged on a disk with --durability log";

/// All of memcached 1.6.18, without `no_`.
const OPTIONS: &[(&str, Effect)] = &[
    ("ssl_", Effect::Tls),
    ("idle_timeout", Effect::Seconds(Id::NetIdleTimeout)),
    ("read_buf_mem_limit", Effect::Mebibytes(Id::NetBufferLimit)),
    ("resp_obj_mem_limit", Effect::Mebibytes(Id::NetBufferLimit)),
    ("maxconns_fast", Effect::Nothing("connections beyond -c are always told so and closed")),
    ("hashpower", Effect::Nothing(NO_CHOICE_OF_HASH)),
    ("hash_algorithm", Effect::Nothing(NO_CHOICE_OF_HASH)),
    ("hashexpand", Effect::Nothing(NO_CHOICE_OF_HASH)),
    ("tail_repair_time", Effect::Nothing(NO_LRU)),
    ("lru_crawler", Effect::Nothing(NO_CRAWLER)),
    ("lru_crawler_sleep", Effect::Nothing(NO_CRAWLER)),
    ("lru_crawler_tocrawl", Effect::Nothing(NO_CRAWLER)),
    ("lru_maintainer", Effect::Nothing(NO_LRU)),
    ("hot_lru_pct", Effect::Nothing(NO_LRU)),
    ("warm_lru_pct", Effect::Nothing(NO_LRU)),
    ("hot_max_factor", Effect::Nothing(NO_LRU)),
    ("warm_max_factor", Effect::Nothing(NO_LRU)),
    ("temporary_ttl", Effect::Nothing(NO_LRU)),
    ("slab_reassign", Effect::Nothing(NO_SLABS)),
    ("slab_automove", Effect::Nothing(NO_SLABS)),
    ("slab_automove_ratio", Effect::Nothing(NO_SLABS)),
    ("slab_automove_window", Effect::Nothing(NO_SLABS)),
    ("slab_automove_freeratio", Effect::Nothing(NO_SLABS)),
    ("slab_chunk_max", Effect::Nothing(NO_SLABS)),
    ("track_sizes", Effect::Nothing("sizes of items are not counted by class")),
    ("watcher_logbuf_size", Effect::WatcherBuffer),
    ("worker_logbuf_size", Effect::Nothing("lines for watchers go to their queues at once")),
    ("inline_ascii_resp", Effect::Nothing("replies are made when they are sent")),
    ("drop_privileges", Effect::Nothing("system calls are restricted by the unit in deploy/systemd")),
    ("modern", Effect::Nothing("there is one generation of defaults")),
    (
        "sock_cookie_id",
        Effect::Refused("sockets have no identifiers here: filter by the address and port of -l"),
    ),
    ("ext_", Effect::Refused(NO_EXTSTORE)),
];

fn effect(name: &str) -> Option<&'static Effect> {
    let found = |name: &str| {
        let is = |option: &str| option == name || option.ends_with('_') && name.starts_with(option);
        OPTIONS.iter().find(|(option, _)| is(option)).map(|(_, effect)| effect)
    };
    found(name)
        .or_else(|| found(name.strip_prefix("no_")?).filter(|effect| matches!(effect, Effect::Nothing(_))))
}

impl ExtendedFlags {
    /// Those that say something of TLS.
    pub fn tls(&self) -> impl Iterator<Item = &str> {
        self.words().filter(|(name, _)| matches!(effect(name), Some(Effect::Tls))).map(|(_, word)| word)
    }

    /// Bytes of lines that wait for a watcher, where something is said of it.
    ///
    /// # Errors
    /// It is no number, or too large a one. A sentence.
    pub fn watcher_buffer(&self) -> Result<Option<usize>, String> {
        let said =
            self.words().filter(|(name, _)| matches!(effect(name), Some(Effect::WatcherBuffer))).last();
        let Some((name, word)) = said else { return Ok(None) };
        let kib = word.split_once('=').and_then(|(_, value)| value.trim().parse::<usize>().ok());
        match kib {
            Some(kib @ 1..=WATCHER_BUFFER_MAX_KIB) => Ok(Some(kib << 10)),
            _ => Err(format!(
                "-o {word}: {name} wants a number of KiB from 1 to {WATCHER_BUFFER_MAX_KIB}, as in {name}=256"
            )),
        }
    }

    /// Names, and what was said as a whole.
    fn words(&self) -> impl Iterator<Item = (&str, &str)> {
        let words = self.extended.iter().map(|word| word.trim()).filter(|word| !word.is_empty());
        words.map(|word| (word.split_once('=').map_or(word, |(name, _)| name), word))
    }

    /// Has them say what they say; a sentence for each that changes nothing.
    ///
    /// # Errors
    /// One is not known, has no number where it wants one, or cannot be. A sentence.
    pub fn apply(&self, registers: &Registers) -> Result<Vec<String>, String> {
        let mut notes = Vec::new();
        for (name, word) in self.words() {
            let set = |id, unit: u64| -> Result<(), String> {
                let value = word.split_once('=').and_then(|(_, value)| value.trim().parse::<u64>().ok());
                let value =
                    value.ok_or_else(|| format!("-o {word}: {name} wants a number, as in {name}=10"))?;
                let wrong = |error: SetError| format!("-o {word}: {error}");
                match value.saturating_mul(unit) {
                    // In memcached no limit.
                    0 if unit > 1 => Ok(()),
                    value => registers.write(id, value).map_err(wrong),
                }
            };
            match effect(name) {
                Some(Effect::Tls | Effect::WatcherBuffer) => {}
                Some(Effect::Seconds(id)) => set(*id, 1)?,
                Some(Effect::Mebibytes(id)) => set(*id, 1 << 20)?,
                Some(Effect::Nothing(why)) => notes.push(format!("-o {word} changes nothing: {why}")),
                Some(Effect::Refused(what_to_do)) => return Err(format!("-o {word}: {what_to_do}")),
                None => {
                    return Err(format!(
                        "-o {word} is not an option of memcached 1.6.18: see -o in `memcached -h`"
                    ));
                }
            }
        }
        Ok(notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (Result<Vec<String>, String>, Registers) {
        let registers = Registers::default();
        let flags = ExtendedFlags { extended: text.split(',').map(str::to_owned).collect() };
        (flags.apply(&registers), registers)
    }

    #[test]
    fn what_can_be_obeyed_is() {
        let (notes, registers) = of("idle_timeout=30,read_buf_mem_limit=64, ssl_key=k.pem");
        assert_eq!(notes, Ok(vec![]));
        assert_eq!(registers.read(Id::NetIdleTimeout), 30);
        assert_eq!(registers.read(Id::NetBufferLimit), 64 << 20);
        let before = Registers::default().read(Id::NetBufferLimit);
        assert_eq!(of("read_buf_mem_limit=0").1.read(Id::NetBufferLimit), before);
    }

    #[test]
    fn a_watcher_has_as_much_as_is_said() {
        let buffer = |text: &str| ExtendedFlags { extended: vec![text.to_owned()] }.watcher_buffer();
        assert_eq!((buffer("watcher_logbuf_size=64"), buffer("modern")), (Ok(Some(64 << 10)), Ok(None)));
        assert_eq!(of("watcher_logbuf_size=64").0, Ok(vec![]));
        for word in ["watcher_logbuf_size", "watcher_logbuf_size=0", "watcher_logbuf_size=99999999"] {
            assert!(buffer(word).expect_err(word).contains("from 1 to 65536"), "{word}");
        }
    }

    #[test]
    fn what_changes_nothing_says_so() {
        let words = "modern,no_lru_crawler,hashpower=20,slab_reassign,slab_automove=1,no_hashexpand,hot_lru_pct=20,track_sizes";
        let notes = of(words).0.expect("none is refused");
        assert_eq!(notes.len(), words.split(',').count());
        assert!(notes[1].starts_with("-o no_lru_crawler changes nothing: "), "{notes:?}");
    }

    #[test]
    fn what_cannot_be_says_what_to_do() {
        for (word, part) in [
            ("ext_path=/x:1G", "--durability log"),
            ("sock_cookie_id=1", "-l"),
            ("nonsense", "memcached -h"),
            ("no_idle_timeout", "memcached -h"),
            ("no_ext_path", "memcached -h"),
            ("idle_timeout", "wants a number"),
            ("idle_timeout=soon", "wants a number"),
            ("idle_timeout=99999999999", "-o idle_timeout=99999999999: "),
        ] {
            let error = of(word).0.expect_err(word);
            assert!(error.contains(part), "{word}: {error}");
        }
    }

    /// Each that the installed memcached lists is known.
    #[test]
    fn every_option_of_memcached_is_known() {
        let Ok(help) = std::process::Command::new("memcached").arg("-h").output() else {
            return eprintln!("SKIPPED: memcached is not installed");
        };
        let help = String::from_utf8_lossy(&help.stdout);
        let extended = help.split_once("--extended").expect("it has -o").1;
        let named = extended.lines().filter_map(|line| line.trim().strip_prefix("- "));
        let names = named.filter_map(|line| line.split_once(':')).map(|(name, _)| name);
        let names: Vec<&str> = names.filter(|name| !name.contains(' ')).collect();
        assert!(names.len() > 40, "{names:?}");
        let unknown: Vec<&&str> = names.iter().filter(|name| effect(name).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
