//! etcd (v3) over its JSON gateway: requests to whichever member answers, as a user if there is one.
//!
//! ```text
//!   ask ──▶ the endpoint that answered last ──no answer──▶ the next one … ──all──▶ Unreachable
//!            └─ a user: token, or log in first; a token that is not good any more is replaced once
//! ```
//! Reads and transactions of etcd are linearizable. A request that got no answer may have been done all the same.
//!
//! Bounds: a time for each endpoint; answers of 64 KiB. With `http:` passwords and configurations are in the clear: a network that you trust.
//! Sources: etcd API v3, `rpc.proto` (Range, Txn, Compare).

use crate::web::{Tls, Web};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

const ANSWER_BYTES: u64 = 64 << 10;

/// Codes of gRPC, as etcd's gateway passes them on.
const INVALID: i64 = 3;
const DEADLINE: i64 = 4;
const DENIED: i64 = 7;
const UNAVAILABLE: i64 = 14;
const UNAUTHENTICATED: i64 = 16;

/// Why etcd did not do it, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdError {
    /// None of these endpoints answered, each for its reason.
    Unreachable(Vec<(String, String)>),
    /// This endpoint knows the user, who may not; or does not know him.
    Refused(String, String),
    /// This is no endpoint.
    BadUrl(String),
    /// This endpoint wants TLS, and nothing says whose certificates are believed.
    NoAuthority(String),
    /// There is no endpoint to ask.
    NoUrl,
    /// An answer is not what etcd answers.
    Odd(String),
}

impl fmt::Display for EtcdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EtcdError::Unreachable(endpoints) => {
                f.write_str("etcd does not answer:")?;
                endpoints.iter().try_for_each(|(url, why)| write!(f, " {url} ({why})"))
            }
            EtcdError::Refused(url, why) => write!(f, "etcd at {url} refuses: {why}"),
            EtcdError::BadUrl(url) => {
                write!(f, "{url:?} is no etcd endpoint: write http://HOST:PORT or https://HOST:PORT")
            }
            EtcdError::NoAuthority(url) => {
                write!(
                    f,
                    "{url}: whose certificates are believed? Name the authorities, those of etcd's --trusted-ca-file"
                )
            }
            EtcdError::NoUrl => f.write_str("no etcd endpoint is named: write http://HOST:PORT"),
            EtcdError::Odd(what) => write!(f, "etcd's answer is not understood: {what}"),
        }
    }
}

impl std::error::Error for EtcdError {}

/// A key that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its value.
    pub value: String,
    /// The revision of etcd that wrote it.
    pub revision: i64,
}

/// As whom etcd is asked, and how it is known.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// User and password.
    pub login: Option<(String, String)>,
    /// For endpoints with `https:`.
    pub tls: Option<Tls>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No password, wherever this is printed.
        let user = self.login.as_ref().map(|(user, _)| user);
        f.debug_struct("Access").field("user", &user).field("tls", &self.tls).finish()
    }
}

/// A connection to an etcd cluster. Nothing is asked before it is used.
pub struct Etcd {
    endpoints: Vec<String>,
    login: Option<(String, String)>,
    web: Web,
    /// The endpoint that answered last.
    endpoint: usize,
    /// What requests show, once the user has logged in.
    token: Option<String>,
}

/// Why an endpoint did not do it.
enum Failure {
    /// It knows who asks, and that he may not; or does not know him.
    Refused(String),
    /// Another one may.
    Other(String),
}

impl Etcd {
    /// To these endpoints (`http://HOST:PORT`, `https://HOST:PORT`); each has so long to answer.
    ///
    /// # Errors
    /// [`EtcdError::BadUrl`], [`EtcdError::NoUrl`], [`EtcdError::NoAuthority`].
    pub fn new(endpoints: Vec<String>, access: Access, timeout: Duration) -> Result<Etcd, EtcdError> {
        let Access { login, tls } = access;
        let host =
            |url: &str| ["http://", "https://"].iter().find_map(|way| url.strip_prefix(way).map(str::len));
        if let Some(url) = endpoints.iter().find(|url| host(url).unwrap_or(0) == 0) {
            return Err(EtcdError::BadUrl(url.clone()));
        }
        if let Some(url) = endpoints.iter().find(|url| tls.is_none() && url.starts_with("https:")) {
            return Err(EtcdError::NoAuthority(url.clone()));
        }
        if endpoints.is_empty() {
            return Err(EtcdError::NoUrl);
        }
        let web = Web::with_tls(timeout, ANSWER_BYTES, tls.as_ref());
        Ok(Etcd { endpoints, login, web, endpoint: 0, token: None })
    }

    /// What is at a key.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub fn get(&mut self, key: &str) -> Result<Option<Found>, EtcdError> {
        let answer = self.ask("range", &json!({ "key": encode(key) }))?;
        found(&answer)
    }

    /// One request of the `kv` service (`range`, `txn`), to whichever endpoint answers. Keys and values in it are in base64: [`encode`].
    ///
    /// # Errors
    /// [`EtcdError`].
    pub fn ask(&mut self, path: &str, body: &Value) -> Result<Value, EtcdError> {
        let mut failures = Vec::new();
        for _ in 0..self.endpoints.len() {
            let url = self.endpoints[self.endpoint].trim_end_matches('/').to_owned();
            match self.post(url.as_str(), path, body) {
                Ok(answer) => return Ok(answer),
                // Another member knows no other password.
                Err(Failure::Refused(why)) => return Err(EtcdError::Refused(url, why)),
                Err(Failure::Other(why)) => failures.push((url, why)),
            }
            self.endpoint = (self.endpoint + 1) % self.endpoints.len();
        }
        Err(EtcdError::Unreachable(failures))
    }

    /// One request to one endpoint, as the user if there is one. A token that is not good any more is replaced once: etcd forgets tokens when it
    /// starts again and after minutes, and when users change.
    fn post(&mut self, url: &str, path: &str, body: &Value) -> Result<Value, Failure> {
        let is_fresh = self.token.is_none();
        if is_fresh && let Some((user, password)) = &self.login {
            let login = json!({ "name": user, "password": password });
            let answer = post(&self.web, &format!("{url}/v3/auth/authenticate"), None, &login).map_err(
                |(code, why)| match code {
                    Some(UNAVAILABLE | DEADLINE) | None => Failure::Other(why),
                    Some(_) => Failure::Refused(format!("{why}, for user {user:?}")),
                },
            )?;
            self.token = answer["token"].as_str().map(str::to_owned);
        }
        match post(&self.web, &format!("{url}/v3/kv/{path}"), self.token.as_deref(), body) {
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
}

/// A key or a value as etcd's gateway has them.
pub fn encode(text: impl AsRef<[u8]>) -> String {
    BASE64.encode(text)
}

/// What an endpoint answers; else etcd's code, if it is etcd, and why.
fn post(web: &Web, url: &str, token: Option<&str>, body: &Value) -> Result<Value, (Option<i64>, String)> {
    let page = web.post(url, token, &body.to_string()).map_err(|error| (None, error))?;
    let parsed: Result<Value, _> = serde_json::from_str(&page.text);
    if !page.is_there {
        let said = parsed.unwrap_or_default();
        if let (Some(code), Some(why)) = (said["code"].as_i64(), said["error"].as_str()) {
            return Err((Some(code), why.chars().take(200).collect()));
        }
        let start: String = page.text.chars().take(200).collect();
        return Err((None, format!("{}: {}", page.status, start.trim())));
    }
    parsed.map_err(|error| (None, format!("its answer is no JSON: {error}")))
}

/// The range in a transaction's answer.
pub fn range_of(answer: &Value) -> &Value {
    &answer["responses"][0]["response_range"]
}

/// The only key of a range, if there is one.
///
/// # Errors
/// [`EtcdError::Odd`].
pub fn found(range: &Value) -> Result<Option<Found>, EtcdError> {
    let Some(pair) = range["kvs"].get(0) else { return Ok(None) };
    let bytes = BASE64.decode(pair["value"].as_str().unwrap_or_default()).ok();
    let value = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    match (value, number(&pair["mod_revision"])) {
        (Some(value), Some(revision)) => Ok(Some(Found { value, revision })),
        _ => Err(EtcdError::Odd(format!("{pair} has no value or revision"))),
    }
}

/// etcd writes 64-bit numbers as text.
pub fn number(value: &Value) -> Option<i64> {
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
