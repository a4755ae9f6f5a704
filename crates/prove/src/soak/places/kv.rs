//! The key-value server: counters over memcached's text protocol, pipelined.

use super::{Account, Counted, Run, Subject};
use serve::kv::Server;
use serve::kv::config::Config;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const KEYS: u32 = 16;
/// Requests of a connection that are under way together.
const PIPELINE: u32 = 24;
/// More than a reply takes that comes at all.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Kv(Server);

impl Kv {
    pub(super) fn start() -> Result<Kv, String> {
        let mut config = Config::default();
        config.listen.tcp = vec![([127, 0, 0, 1], 0).into()];
        for (name, value) in [("edge.threads", "2"), ("store.memory", "64m")] {
            config.registers.set(name, value).map_err(|error| error.to_string())?;
        }
        let server = Kv(Server::start(&config).map_err(|error| error.to_string())?);
        let mut connection = server.connect()?;
        for key in 0..KEYS {
            let set = format!("set c{key} 0 0 1\r\n0\r\n");
            connection.get_mut().write_all(set.as_bytes()).map_err(|error| error.to_string())?;
            read(&mut connection)?;
        }
        Ok(server)
    }

    fn connect(&self) -> Result<BufReader<TcpStream>, String> {
        let stream = TcpStream::connect(self.0.tcp()[0]).map_err(|error| error.to_string())?;
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(REPLY_TIMEOUT)));
        set.map_err(|error| error.to_string())?;
        Ok(BufReader::new(stream))
    }
}

fn read(from: &mut BufReader<TcpStream>) -> Result<String, String> {
    let mut line = String::new();
    match from.read_line(&mut line) {
        Ok(0) => Err("kv closed a connection".to_owned()),
        Ok(_) => Ok(line),
        Err(error) => Err(format!("kv does not answer: {error}")),
    }
}

impl Subject for Kv {
    fn places(&self) -> (&'static str, &'static str, &'static [&'static str]) {
        ("kv", "engine.mode", &["dedicated", "shared"])
    }

    fn go_to(&self, place: &str) -> Result<(), String> {
        self.0.shared().registers.set_live("engine.mode", place).map_err(|error| error.to_string())
    }

    fn client(&self, number: u32, run: &Run) -> Result<Account, String> {
        let mut connection = self.connect()?;
        let (mut account, mut next) = (Account::default(), number);
        while !run.is_over() {
            let mut text = String::new();
            let keys: Vec<u32> = (0..PIPELINE).map(|_| (next.wrapping_mul(7), next += 1).0 % KEYS).collect();
            keys.iter().for_each(|key| text.push_str(&format!("incr c{key} 1\r\n")));
            let began = run.now();
            connection.get_mut().write_all(text.as_bytes()).map_err(|error| error.to_string())?;
            // Of one connection in order: the same key's values rise within a pipeline.
            let mut last = [0; KEYS as usize];
            for key in keys {
                let line = read(&mut connection)?;
                let ended = run.now();
                account.calls += 1;
                match line.trim_end().parse::<u64>() {
                    Ok(value) if value > last[key as usize] => {
                        last[key as usize] = value;
                        account.history.push(Counted { key, value, began, ended });
                    }
                    _ => account.wrong += 1,
                }
            }
        }
        Ok(account)
    }
}
