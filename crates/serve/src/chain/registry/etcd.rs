//! A registry in etcd (v3), over its JSON gateway.
//!
//! ```text
//!   /millrace/chain/N/configuration   as `text` writes it
//!   /millrace/chain/N/controller      who leads: number and a word of its own for each time that it leads
//! ```
//! **Leadership.** Who leads writes its key anew, `pace` apart. Who wants to lead looks at the key as often, and takes it over when it has not
//! changed for a whole span of leadership on *its own* clock, counted from when an answer showed it; the write has the condition that it still
//! has not. Who leads counts from *before* it sent the last write that succeeded, and less by the drift. So the one has ended before the other
//! begins, wherever messages wait and whatever the clocks say, if they run equally fast. Who gives leadership up writes so, and need not be
//! waited for. A key that is not there is waited for like any other: somebody may have removed it while another leads.
//!
//! Rejected: a key bound to an etcd lease. etcd's leader renews leases without asking a quorum, so an old one may renew for a moment what the
//! new one lets run out; and how long it runs on is counted on a third clock. Reads and transactions of etcd are linearizable: all that is
//! used here.
//!
//! **Swap** is one transaction: the configuration has not changed since this registry saw it with the expected epoch, and the leader's key has this
//! one's word.
//!
//! Bounds: a request takes at most a sixth of leadership per endpoint; answers of 64 KiB. No TLS: a network that you trust, with
//! passwords on it, too.
//! Sources: etcd API v3, `rpc.proto` (Txn, Compare); Gray & Cheriton, "Leases" (SOSP '89).

use super::{Registry, RegistryError, Swapped, text};
use base::{Clock, Nanos};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use protocol::chain::{Configuration, Epoch};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ANSWER_BYTES: u64 = 64 << 10;
/// What the leader's key says when leadership was given up.
const NOBODY: &str = "nobody";

/// As whom etcd is asked, where it has authentication enabled.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// Ask etcd as this user, who may read and write the keys under /millrace/
    #[arg(id = "etcd-user", long = "etcd-user", value_name = "NAME", requires = "etcd-password-file")]
    pub user: Option<String>,

    /// The file with the user's password, its owner's alone; blanks at its end are not of it
    #[arg(
        id = "etcd-password-file",
        long = "etcd-password-file",
        value_name = "FILE",
        requires = "etcd-user"
    )]
    pub password_file: Option<PathBuf>,
}

impl Login {
    /// The user and the password, if there are any.
    ///
    /// # Errors
    /// The file cannot be read, or others may read it.
    pub fn read(&self) -> Result<Option<(String, String)>, RegistryError> {
        let (Some(user), Some(file)) = (&self.user, &self.password_file) else { return Ok(None) };
        let failed = |error| RegistryError::File("read the password in", file.clone(), error);
        if std::fs::metadata(file).map_err(failed)?.mode() & 0o077 != 0 {
            return Err(RegistryError::OpenToOthers(file.clone()));
        }
        let password = std::fs::read_to_string(file).map_err(failed)?;
        Ok(Some((user.clone(), password.trim_end().to_owned())))
    }
}

/// What of etcd and its clocks is to be known.
#[derive(Clone, Debug)]
pub struct Etcd {
    /// http://HOST:PORT of each member.
    pub endpoints: Vec<String>,
    /// A controller of which nothing is seen for so long does not lead any more.
    pub leadership: Duration,
    /// How much clocks of controllers may differ in speed.
    pub drift_percent: u64,
    /// User and password.
    pub login: Option<(String, String)>,
}

impl Etcd {
    /// At these endpoints, with times that suit replicas that are granted leases of half a second.
    pub fn at(endpoints: Vec<String>) -> Etcd {
        Etcd { endpoints, leadership: Duration::from_secs(3), drift_percent: 1, login: None }
    }

    fn patience(&self) -> Duration {
        self.leadership / 6
    }
}

/// See the file's head.
pub struct EtcdRegistry {
    etcd: Etcd,
    agent: ureq::Agent,
    /// The endpoint that answered last.
    endpoint: usize,
    /// What requests show, once the user has logged in.
    token: Option<String>,
    chain: u32,
    number: u16,
    clock: Clock,
    /// What its key says while it leads.
    word: Option<String>,
    /// It leads until then, if it does.
    leads_until: Nanos,
    /// Terms that it began, so that no two have one word.
    terms: u64,
    /// Another's key: its revision, and when it was first seen so.
    seen: Option<(i64, Nanos)>,
    /// The configuration's epoch and revision, as last seen.
    configuration: Option<(Epoch, i64)>,
}

/// A key that was found.
struct Found {
    value: String,
    revision: i64,
}

impl EtcdRegistry {
    /// The registry of a chain, for controller `number`. Nothing is asked yet.
    ///
    /// # Errors
    /// An endpoint is none.
    pub fn new(etcd: Etcd, chain: u32, number: u16) -> Result<EtcdRegistry, RegistryError> {
        let is_bad = |url: &&String| !url.starts_with("http://") || url.len() == "http://".len();
        if let Some(url) = etcd.endpoints.iter().find(is_bad) {
            return Err(RegistryError::BadUrl(url.clone()));
        }
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(etcd.patience()))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build()
            .new_agent();
        Ok(EtcdRegistry {
            etcd,
            agent,
            endpoint: 0,
            token: None,
            chain,
            number,
            clock: Clock::shared(),
            word: None,
            leads_until: Nanos::ZERO,
            terms: 0,
            seen: None,
            configuration: None,
        })
    }

    fn key(&self, name: &str) -> String {
        BASE64.encode(format!("/millrace/chain/{}/{name}", self.chain))
    }

    /// One request, to whichever endpoint answers.
    fn ask(&mut self, path: &str, body: &Value) -> Result<Value, RegistryError> {
        let mut failures = Vec::new();
        for _ in 0..self.etcd.endpoints.len() {
            let url = self.etcd.endpoints[self.endpoint].trim_end_matches('/').to_owned();
            match self.post(url.as_str(), path, body) {
                Ok(answer) => return Ok(answer),
                // Another member knows no other password.
                Err(Failure::Refused(why)) => return Err(RegistryError::Refused(url, why)),
                Err(Failure::Other(why)) => failures.push((url, why)),
            }
            self.endpoint = (self.endpoint + 1) % self.etcd.endpoints.len();
        }
        Err(RegistryError::Unreachable(failures))
    }

    /// One request to one endpoint, as the user if there is one. A token that is not good any more is replaced once: etcd forgets tokens when it
    /// starts again and after minutes, and when users change.
    fn post(&mut self, url: &str, path: &str, body: &Value) -> Result<Value, Failure> {
        let is_fresh = self.token.is_none();
        if is_fresh && let Some((user, password)) = &self.etcd.login {
            let login = json!({ "name": user, "password": password });
            let answer = post(&self.agent, &format!("{url}/v3/auth/authenticate"), None, &login).map_err(
                |(code, why)| match code {
                    Some(UNAVAILABLE | DEADLINE) | None => Failure::Other(why),
                    Some(_) => Failure::Refused(format!("{why}, for user {user:?}")),
                },
            )?;
            self.token = answer["token"].as_str().map(str::to_owned);
        }
        match post(&self.agent, &format!("{url}/v3/kv/{path}"), self.token.as_deref(), body) {
            Ok(answer) => Ok(answer),
            Err((Some(UNAUTHENTICATED | INVALID), why)) if self.token.take().is_some() => match is_fresh {
                true => Err(Failure::Refused(why)),
                false => self.post(url, path, body),
            },
            Err((Some(DENIED), why)) => Err(Failure::Refused(why)),
            Err((Some(INVALID), why)) if why.contains("user name is empty") => Err(Failure::Refused(why)),
            Err((_, why)) => Err(Failure::Other(why)),
        }
    }

    fn find(&mut self, name: &str) -> Result<Option<Found>, RegistryError> {
        let answer = self.ask("range", &json!({ "key": self.key(name) }))?;
        found(&answer)
    }

    /// Writes the leader's key if `condition` holds; else what is there.
    fn claim(&mut self, condition: Value, word: &str) -> Result<Result<(), Option<Found>>, RegistryError> {
        let key = self.key("controller");
        let answer = self.ask(
            "txn",
            &json!({
                "compare": [condition],
                "success": [{ "request_put": { "key": key, "value": BASE64.encode(word) } }],
                "failure": [{ "request_range": { "key": key } }],
            }),
        )?;
        if answer["succeeded"] == json!(true) { Ok(Ok(())) } else { found(range_of(&answer)).map(Err) }
    }

    /// It wrote its key after `sent`: until when it leads.
    fn note_claim(&mut self, sent: Nanos) -> Option<Nanos> {
        let span = Nanos::from(self.etcd.leadership);
        let span = Nanos(span.0 / 100 * (100 - self.etcd.drift_percent.min(99)));
        self.leads_until = sent.plus(span);
        Some(self.leads_until)
    }

    fn new_word(&mut self) -> String {
        self.terms += 1;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("controller {} {}-{}-{}", self.number, std::process::id(), since.as_nanos(), self.terms)
    }

    fn is_mine(&self, word: &str) -> Value {
        let value = BASE64.encode(word);
        json!({ "key": self.key("controller"), "target": "VALUE", "result": "EQUAL", "value": value })
    }

    /// As if the last answer about the configuration had not come.
    #[cfg(test)]
    pub(super) fn forget(&mut self) {
        self.configuration = None;
    }

    /// Remembers what the configuration's key was seen as.
    fn note(&mut self, found: Option<Found>) -> Result<Option<Configuration>, RegistryError> {
        let Some(found) = found else {
            self.configuration = None;
            return Ok(None);
        };
        let not_ours = |why| {
            RegistryError::NotOurs(format!("/millrace/chain/{}/configuration in etcd", self.chain), why)
        };
        let configuration = text::parse(self.chain, &found.value).map_err(not_ours)?;
        self.configuration = Some((configuration.epoch, found.revision));
        Ok(Some(configuration))
    }
}

impl Registry for EtcdRegistry {
    fn campaign(&mut self) -> Result<Option<Nanos>, RegistryError> {
        self.word = None;
        let found = self.find("controller")?;
        let revision = found.as_ref().map_or(0, |found| found.revision);
        let now = self.clock.now();
        let first_seen = match self.seen {
            Some((before, since)) if before == revision => since,
            _ => now,
        };
        self.seen = Some((revision, first_seen));
        let is_free = found.as_ref().is_some_and(|found| found.value == NOBODY);
        if !is_free && now < first_seen.plus(self.etcd.leadership.into()) {
            return Ok(None);
        }
        let word = self.new_word();
        let unchanged = json!({
            "key": self.key("controller"), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string(),
        });
        let sent = self.clock.now();
        let is_claimed = match self.claim(unchanged, &word)? {
            Ok(()) => true,
            // The first endpoint did it, and the answer was lost.
            Err(found) => found.is_some_and(|found| found.value == word),
        };
        self.seen = None;
        self.word = is_claimed.then_some(word);
        Ok(if is_claimed { self.note_claim(sent) } else { None })
    }

    fn renew(&mut self) -> Result<Option<Nanos>, RegistryError> {
        let Some(word) = self.word.clone() else { return Ok(None) };
        let sent = self.clock.now();
        // One that hears no answers must not go on writing its key: nobody could lead.
        if sent < self.leads_until && self.claim(self.is_mine(&word), &word)?.is_ok() {
            return Ok(self.note_claim(sent));
        }
        self.word = None;
        Ok(None)
    }

    fn load(&mut self) -> Result<Option<Configuration>, RegistryError> {
        let found = self.find("configuration")?;
        self.note(found)
    }

    fn swap(&mut self, expected: Epoch, next: &Configuration) -> Result<Swapped, RegistryError> {
        if self.configuration.map_or(Epoch(0), |(epoch, _)| epoch) != expected {
            let found = self.load()?;
            if found.as_ref().map_or(Epoch(0), |found| found.epoch) != expected {
                return Ok(if found.as_ref() == Some(next) { Swapped::Done } else { Swapped::Other(found) });
            }
        }
        let revision = self.configuration.map_or(0, |(_, revision)| revision);
        let key = self.key("configuration");
        // Without a word nothing has this value: it is not done.
        let word = self.word.clone().unwrap_or_default();
        let answer = self.ask(
            "txn",
            &json!({
                "compare": [
                    { "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string() },
                    self.is_mine(&word),
                ],
                "success": [{ "request_put": { "key": key, "value": BASE64.encode(text::emit(self.chain, next)) } }],
                "failure": [{ "request_range": { "key": key } }],
            }),
        )?;
        if answer["succeeded"] == json!(true) {
            self.configuration = number(&answer["header"]["revision"]).map(|revision| (next.epoch, revision));
            return Ok(Swapped::Done);
        }
        let found = found(range_of(&answer))?;
        let found = self.note(found)?;
        // An attempt before was done, and its answer lost.
        Ok(if found.as_ref() == Some(next) { Swapped::Done } else { Swapped::Other(found) })
    }

    fn resign(&mut self) {
        let Some(word) = self.word.take() else { return };
        // If it cannot be told, the others wait.
        let _ = self.claim(self.is_mine(&word), NOBODY);
    }

    fn pace(&self) -> Duration {
        self.etcd.leadership / 4
    }
}

/// Codes of gRPC, as etcd's gateway passes them on.
const INVALID: i64 = 3;
const DEADLINE: i64 = 4;
const DENIED: i64 = 7;
const UNAVAILABLE: i64 = 14;
const UNAUTHENTICATED: i64 = 16;

/// Why an endpoint did not do it.
enum Failure {
    /// It knows who asks, and that he may not; or does not know him.
    Refused(String),
    /// Another one may.
    Other(String),
}

/// What an endpoint answers; else etcd's code, if it is etcd, and why.
fn post(
    agent: &ureq::Agent,
    url: &str,
    token: Option<&str>,
    body: &Value,
) -> Result<Value, (Option<i64>, String)> {
    let request = agent.post(url).header("content-type", "application/json");
    let request = match token {
        Some(token) => request.header("authorization", token),
        None => request,
    };
    let mut answer = request.send(body.to_string()).map_err(|error| (None, error.to_string()))?;
    let status = answer.status();
    let text = answer.body_mut().with_config().limit(ANSWER_BYTES).read_to_string();
    let text = text.map_err(|error| (None, error.to_string()))?;
    let parsed: Result<Value, _> = serde_json::from_str(&text);
    if !status.is_success() {
        let said = parsed.unwrap_or_default();
        if let (Some(code), Some(why)) = (said["code"].as_i64(), said["error"].as_str()) {
            return Err((Some(code), why.chars().take(200).collect()));
        }
        let start: String = text.chars().take(200).collect();
        return Err((None, format!("{status}: {}", start.trim())));
    }
    parsed.map_err(|error| (None, format!("its answer is no JSON: {error}")))
}

/// The range in a transaction's answer.
fn range_of(answer: &Value) -> &Value {
    &answer["responses"][0]["response_range"]
}

/// The only key of a range, if there is one.
fn found(range: &Value) -> Result<Option<Found>, RegistryError> {
    let Some(pair) = range["kvs"].get(0) else { return Ok(None) };
    let bytes = BASE64.decode(pair["value"].as_str().unwrap_or_default()).ok();
    let value = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    match (value, number(&pair["mod_revision"])) {
        (Some(value), Some(revision)) => Ok(Some(Found { value, revision })),
        _ => Err(RegistryError::NotOurs("etcd's answer".into(), format!("{pair} has no value or revision"))),
    }
}

/// etcd writes 64-bit numbers as text.
fn number(value: &Value) -> Option<i64> {
    value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_i64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// JSON with etcd's names in it, anywhere.
    fn answer() -> impl Strategy<Value = Value> {
        let word = prop_oneof![
            any::<i64>().prop_map(|number| json!(number.to_string())),
            any::<i64>().prop_map(|number| json!(number)),
            any::<String>().prop_map(|text| json!(BASE64.encode(text))),
            proptest::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| json!(BASE64.encode(bytes))),
            any::<String>().prop_map(Value::from),
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
        ];
        let name = prop_oneof![
            Just("kvs"),
            Just("value"),
            Just("mod_revision"),
            Just("responses"),
            Just("response_range"),
            Just("succeeded"),
        ];
        word.prop_recursive(6, 60, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map(name.clone(), inner, 0..5)
                    .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
            ]
        })
    }

    proptest! {
        /// A stranger at etcd's port, or a newer etcd: whatever it says is an answer, no answer, or refused.
        #[test]
        fn any_json_is_a_key_or_none_or_refused(answer in answer(), revision: i64, text: String) {
            for range in [&answer, range_of(&answer), &json!({ "kvs": [answer] }), &json!({ "kvs": answer })] {
                if let Ok(Some(found)) = found(range) {
                    let pair = &range["kvs"][0];
                    prop_assert_eq!(pair["value"].as_str().unwrap_or_default(), BASE64.encode(&found.value));
                    prop_assert_eq!(number(&pair["mod_revision"]), Some(found.revision));
                }
            }
            let pair = json!({ "value": BASE64.encode(&text), "mod_revision": revision.to_string() });
            let found = super::found(&json!({ "kvs": [pair] })).expect("etcd's words").expect("a key");
            prop_assert_eq!((found.value, found.revision), (text, revision));
        }
    }
}
