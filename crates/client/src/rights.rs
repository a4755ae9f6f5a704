//! The file of rights: who may do what ([`base::rights`]).
//!
//! ```toml
//! tokens = "tokens"                     # lines name:token, beside this file
//!
//! [[allow]]
//! who = ["user:shop", "dns:shop.example.org"]
//! services = ["cache"]                  # of a config file; all, unless said
//! read = ["shop:", "session:"]          # keys that begin so; "" is every key
//! write = ["shop:"]
//!
//! [[allow]]
//! who = "token:ci"
//! call = ["shop.Cart/*"]                # methods of the fabric and of gRPC
//! infer = ["ranking"]                   # models
//! admin = "read"                        # or "write": to change as well as to look
//! ```
//! What no rule allows nobody may. Every complaint names file and line: a rule that could never be of use is one, too.

use crate::table::{Entry, Source, Table, Wrong, nearest};
use base::rights::{Admin, Identity, Patterns, Proof, RULES_MAX, Rule, Rules};
use base::users::{FILE_BYTES_MAX, Form, Users, is_open_to_others};
use std::path::Path;

/// Longest key of any service.
const KEY_BYTES_MAX: usize = 250;

/// Keys of a rule.
const KEYS: [&str; 7] = ["who", "services", "read", "write", "call", "infer", "admin"];

/// What is known of the process whose rights they are.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Names of its services; none where they have none.
    pub services: Vec<String>,
    /// Clients are asked for certificates.
    pub asks_certificates: bool,
}

/// The rules of the file at a path.
///
/// # Errors
/// What is wrong with it, and where.
pub fn read(path: &Path, facts: &Facts) -> Result<Rules, Wrong> {
    let source = Source::of(path, "");
    let bytes = std::fs::metadata(path).map_or(0, |about| about.len());
    if bytes > FILE_BYTES_MAX {
        let parsed = source.parse()?;
        return Err(source
            .table(&parsed)
            .wrong(format!("more than {FILE_BYTES_MAX} bytes are no file of rights")));
    }
    let source = Source::read(path)?;
    rules(&source, facts, |named| {
        let place = path.parent().unwrap_or(Path::new("")).join(named);
        if let Some(mode) = is_open_to_others(&place) {
            let place = place.display();
            log::warn!(
                "others on this machine can read the tokens in {place} (mode {mode:o}): chmod 600 {place}"
            );
        }
        base::users::read(&place, Form::Token).map_err(|error| error.to_string())
    })
}

/// The rules of a text; `read_tokens` reads the file of this name.
///
/// # Errors
/// What is wrong with it, and where.
pub fn rules(
    source: &Source,
    facts: &Facts,
    read_tokens: impl FnOnce(&str) -> Result<Users, String>,
) -> Result<Rules, Wrong> {
    let parsed = source.parse()?;
    let file = source.table(&parsed);
    file.only(&["tokens", "allow"])?;
    let tokens = file.get("tokens").map(|entry| read_tokens(entry.text()?).map_err(|why| entry.wrong(why)));
    let mut all = Rules { rules: Vec::new(), tokens: tokens.transpose()? };
    let tables = file.get("allow").map_or(Ok(Vec::new()), |entry| entry.tables())?;
    for table in tables {
        if all.rules.len() == RULES_MAX {
            return Err(table.wrong(format!("more than {RULES_MAX} rules: name several in one who")));
        }
        let rule = rule(&table, facts, all.tokens.as_ref())?;
        all.rules.push(rule);
    }
    Ok(all)
}

fn rule(table: &Table<'_>, facts: &Facts, tokens: Option<&Users>) -> Result<Rule, Wrong> {
    table.only(&KEYS)?;
    let who = table.need("who", "anybody, or a list such as [\"user:shop\", \"cn:shop\"]")?;
    let mut rule = Rule { who: identities(&who, facts, tokens)?, ..Rule::default() };
    rule.services = table.get("services").map(|entry| services(&entry, facts)).transpose()?;
    for (key, patterns) in [("read", &mut rule.read), ("write", &mut rule.write)] {
        table.get(key).map_or(Ok(()), |entry| prefixes(&entry, patterns))?;
    }
    for (key, patterns) in [("call", &mut rule.call), ("infer", &mut rule.infer)] {
        table.get(key).map_or(Ok(()), |entry| globs(&entry, patterns))?;
    }
    if let Some(entry) = table.get("admin") {
        rule.admin = match entry.text()? {
            "read" => Admin::Read,
            "write" => Admin::Write,
            other => return Err(entry.wrong(format!("admin is \"read\" or \"write\", and not {other:?}"))),
        };
    }
    let names = [&rule.read, &rule.write, &rule.call, &rule.infer];
    if rule.admin == Admin::None && names.iter().all(|names| names.is_empty()) {
        return Err(who.wrong("this rule allows nothing: it needs read, write, call, infer or admin"));
    }
    Ok(rule)
}

/// The texts of a list that must not be empty, each once.
fn texts<'a>(entry: &Entry<'a>) -> Result<Vec<&'a str>, Wrong> {
    let texts = entry.texts()?;
    if texts.is_empty() {
        return Err(entry.wrong(format!("{} is empty: leave it out, or name some", entry.key)));
    }
    let mut sorted = texts.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(entry.wrong(format!("{} has {:?} twice", entry.key, pair[0]))),
        None => Ok(texts),
    }
}

fn identities(entry: &Entry<'_>, facts: &Facts, tokens: Option<&Users>) -> Result<Vec<Identity>, Wrong> {
    let all = texts(entry)?.into_iter().map(|text| Identity::parse(text).map_err(|why| entry.wrong(why)));
    let all = all.collect::<Result<Vec<_>, _>>()?;
    for identity in &all {
        match identity {
            Identity::Anybody if all.len() > 1 => {
                return Err(entry.wrong("anybody is everybody: the others need not be named beside"));
            }
            Identity::Token(name) => match tokens {
                None => {
                    return Err(entry.wrong(format!(
                        "{identity} has no token: name a file of them above, as in tokens = \"tokens\""
                    )));
                }
                Some(tokens) if !tokens.has_token_of(name.as_bytes()) => {
                    return Err(entry.wrong(format!("there is no {name:?} in the file of tokens")));
                }
                Some(_) => {}
            },
            _ if identity.proof() == Proof::Certificate && !facts.asks_certificates => {
                return Err(entry.wrong(format!(
                    "nobody could prove to be {identity}: clients are not asked for certificates (--tls-client-ca FILE)"
                )));
            }
            _ => {}
        }
    }
    Ok(all)
}

fn services(entry: &Entry<'_>, facts: &Facts) -> Result<Vec<Box<str>>, Wrong> {
    let known = || facts.services.iter().map(String::as_str);
    let all = texts(entry)?;
    if let Some(unknown) = all.iter().find(|name| !known().any(|other| other == **name)) {
        let near = match nearest(unknown, known()) {
            Some(near) => format!("did you mean {near:?}?"),
            None if facts.services.is_empty() => {
                "this process has one service, without a name: leave services out".to_owned()
            }
            None => format!("there are {}", known().collect::<Vec<_>>().join(", ")),
        };
        return Err(entry.wrong(format!("there is no service {unknown:?}; {near}")));
    }
    Ok(all.into_iter().map(Box::from).collect())
}

fn prefixes(entry: &Entry<'_>, patterns: &mut Patterns) -> Result<(), Wrong> {
    for prefix in texts(entry)? {
        if prefix.len() > KEY_BYTES_MAX {
            return Err(entry.wrong(format!("no key is longer than {KEY_BYTES_MAX} bytes")));
        }
        if let Some(star) = prefix.strip_suffix('*') {
            return Err(entry.wrong(format!(
                "{} has beginnings of keys, in which * means itself: write {star:?}",
                entry.key
            )));
        }
        patterns.add_prefix(prefix.as_bytes());
    }
    covered(entry)
}

/// Refuses a name of a list that another of it takes in.
fn covered(entry: &Entry<'_>) -> Result<(), Wrong> {
    let all = texts(entry)?;
    let is_glob = !matches!(entry.key, "read" | "write");
    let beginning = |text: &'_ str| match (is_glob, text.strip_suffix('*')) {
        (false, _) => Some(text.to_owned()),
        (true, prefix) => prefix.map(str::to_owned),
    };
    let mut sorted = all.clone();
    sorted.sort_unstable_by_key(|text| text.len());
    let mut shorter = Patterns::default();
    for text in sorted {
        if shorter.has(text.trim_end_matches(if is_glob { "*" } else { "" }).as_bytes()) {
            return Err(
                entry.wrong(format!("{} has {text:?} twice: another of the list takes it in", entry.key))
            );
        }
        if let Some(prefix) = beginning(text) {
            shorter.add_prefix(prefix.as_bytes());
        }
    }
    Ok(())
}

fn globs(entry: &Entry<'_>, patterns: &mut Patterns) -> Result<(), Wrong> {
    for glob in texts(entry)? {
        if entry.key == "call" && !glob.contains(['/', '*']) {
            return Err(entry
                .wrong(format!("no method is called {glob:?}: write package.Service/Method, or {glob}/*")));
        }
        if glob.starts_with('/') {
            return Err(entry.wrong(format!("{glob:?} begins with a /: write package.Service/Method")));
        }
        patterns.add_glob(glob).map_err(|why| entry.wrong(format!("{glob:?}: {why}")))?;
    }
    covered(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rights::{Ask, Rights};

    fn read(text: &str) -> Result<Rules, String> {
        let source = Source::of(Path::new("r.toml"), text);
        let facts = Facts { services: vec!["cache".to_owned(), "rank".to_owned()], asks_certificates: false };
        let tokens = |name: &str| match name {
            "tokens" => Ok(Users::parse(b"ci:0123456789abcdef", Form::Token).expect("a token")),
            _ => Err(format!("{name}: no such file")),
        };
        rules(&source, &facts, tokens).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn a_file_says_who_may_do_what() {
        let rules = read(
            "tokens = 'tokens'\n[[allow]]\nwho = ['user:shop', 'uid:7']\nservices = 'cache'\nread = ['shop:', 'session:']\nwrite = 'shop:'\n\
             [[allow]]\nwho = 'token:ci'\ncall = ['shop.Cart/*', 'shop.Stock/Get']\ninfer = '*'\nadmin = 'read'\n",
        );
        let rights = Rights::new(rules.expect("a good file"));
        let mut shop = rights.of(Some("cache")).peer(vec![Identity::parse("user:shop").expect("one")]);
        for (what, is_allowed) in [
            (Ask::Read(b"shop:1"), true),
            (Ask::Read(b"session:1"), true),
            (Ask::Write(b"shop:1"), true),
            (Ask::Write(b"session:1"), false),
            (Ask::Call("shop.Cart/Add"), false),
            (Ask::Look, false),
        ] {
            assert_eq!(shop.may(what).is_ok(), is_allowed, "{what}");
        }
        let mut ci = rights.of(None).bearer(Vec::new(), Some(b"0123456789abcdef"));
        for (what, is_allowed) in [
            (Ask::Call("shop.Cart/Add"), true),
            (Ask::Call("shop.Stock/Get"), true),
            (Ask::Call("shop.Stock/Put"), false),
            (Ask::Infer("ranking"), true),
            (Ask::Look, true),
            (Ask::Administer, false),
        ] {
            assert_eq!(ci.may(what).is_ok(), is_allowed, "{what}");
        }
        assert!(read("").expect("nobody may do anything").rules.is_empty());
    }

    #[test]
    fn what_contradicts_itself_is_named_with_its_line() {
        for (text, part) in [
            ("[[allow]]\nread = 'a'", "r.toml:2: [allow] needs who"),
            ("[[allow]]\nwho = 'shop'\nread = 'a'", "r.toml:2: \"shop\" is nobody"),
            ("[[allow]]\nwho = []\nread = 'a'", "r.toml:2: who is empty"),
            ("[[allow]]\nwho = ['user:a', 'user:a']\nread = 'a'", "r.toml:2: who has \"user:a\" twice"),
            ("[[allow]]\nwho = ['user:a', 'anybody']\nread = 'a'", "r.toml:2: anybody is everybody"),
            ("[[allow]]\nwho = 'user:a'", "r.toml:2: this rule allows nothing"),
            (
                "[[allow]]\nwho = 'user:a'\nraed = 'a'",
                "r.toml:3: [allow] has no key \"raed\"; did you mean \"read\"?",
            ),
            ("[[allow]]\nwho = 'user:a'\n\nread = ['a:', 'a:b']", "r.toml:4: read has \"a:b\" twice"),
            ("[[allow]]\nwho = 'user:a'\nread = ['', 'a']", "r.toml:3: read has \"a\" twice"),
            ("[[allow]]\nwho = 'user:a'\nwrite = 'a:*'", "r.toml:3: write has beginnings of keys"),
            ("[[allow]]\nwho = 'user:a'\nread = 7", "r.toml:3: allow.read must be a string"),
            ("[[allow]]\nwho = 'user:a'\ncall = 'shop.Cart'", "r.toml:3: no method is called \"shop.Cart\""),
            ("[[allow]]\nwho = 'user:a'\ncall = '/shop.Cart/Add'", "begins with a /"),
            (
                "[[allow]]\nwho = 'user:a'\ncall = 'a*/b'",
                "r.toml:3: \"a*/b\": a * may stand at the end alone",
            ),
            ("[[allow]]\nwho = 'user:a'\ncall = ['a.B/*', 'a.B/C']", "r.toml:3: call has \"a.B/C\" twice"),
            ("[[allow]]\nwho = 'user:a'\nadmin = 'all'", "r.toml:3: admin is \"read\" or \"write\""),
            (
                "[[allow]]\nwho = 'user:a'\nservices = 'cahce'\nread = 'a'",
                "r.toml:3: there is no service \"cahce\"; did you mean \"cache\"?",
            ),
            ("[[allow]]\nwho = 'token:ci'\nread = 'a'", "r.toml:2: token:ci has no token"),
            (
                "tokens = 'tokens'\n[[allow]]\nwho = 'token:cd'\nread = 'a'",
                "r.toml:3: there is no \"cd\" in the file of tokens",
            ),
            ("tokens = 'other'", "r.toml:1: other: no such file"),
            ("[[allow]]\nwho = 'cn:a'\nread = 'a'", "r.toml:2: nobody could prove to be cn:a"),
            ("[allow]\nwho = 'user:a'", "r.toml:1: allow must be a list of tables: [[allow]]"),
            ("deny = 1", "r.toml:1: the file has no key \"deny\""),
            ("[[allow]", "r.toml:1: not valid TOML"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(part), "{text:?} gave {error:?}");
        }
    }
}
