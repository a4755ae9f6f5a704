//! The file of a cluster as its controllers have it: `GET /topology` of their admin ports, and what stands for a file where one is wanted.
//!
//! ```text
//!   http://HOST:PORT,HOST:PORT…  ──▶ all at once ──▶ the first that has the text of a file
//! ```
//! What a rack's controller says is its file with homes where they are now (`moved`), and with the paths of keys as they are on its machine. It is believed
//! as a file is: what a home is asked to write is proven with a key, wherever it was said to be.
//!
//! Bounds: [`MAX_CONTROLLERS`] that are asked, [`TIMEOUT`] for all of them unless the caller says another, [`MAX_BYTES`] of an answer.

use crate::web::{Page, Web};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Controllers that are asked at most; a rack has no more.
pub const MAX_CONTROLLERS: usize = 16;
/// The longest text that is read.
pub const MAX_BYTES: u64 = 1 << 20;
/// How long controllers may take, unless somebody says another time.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// Admin ports of controllers: one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(Vec<String>);

impl Controllers {
    /// Of `HOST:PORT`, or of a URL such as `http://HOST:PORT/services/NAME` of a node with several services; several with commas.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn parse(text: &str) -> Result<Controllers, String> {
        let urls = text.split(',').map(str::trim).map(url).collect::<Result<Vec<_>, String>>()?;
        if urls.len() > MAX_CONTROLLERS {
            return Err(format!("{} controllers: {MAX_CONTROLLERS} at most are asked", urls.len()));
        }
        Ok(Controllers(urls))
    }

    /// Of several such texts.
    ///
    /// # Errors
    /// As [`Controllers::parse`].
    pub fn of(places: &[impl AsRef<str>]) -> Result<Controllers, String> {
        Controllers::parse(&places.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(","))
    }

    /// If what is given as the file of a cluster names controllers instead: it begins as a URL does.
    pub fn named(file: &Path) -> Option<Result<Controllers, String>> {
        let text = file.to_str()?;
        let (scheme, _) = text.split_once("://")?;
        let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_scheme.then(|| match scheme {
            "http" => Controllers::parse(text),
            "etcd" => Err(format!(
                "{text:?}: a rack is not in etcd, only its file and its controllers know it: write http://HOST:PORT of a controller's admin port"
            )),
            _ => Err(format!("{text:?} is no controller's admin port: write http://HOST:PORT (plain HTTP)")),
        })
    }

    /// As it is written where a file is wanted.
    pub fn place(&self) -> String {
        self.0.join(",")
    }

    /// The URLs of their admin ports, without a slash at the end.
    pub fn urls(&self) -> &[String] {
        &self.0
    }

    /// The text of the file, as the first of them has it who answers with one; all are asked at once.
    ///
    /// # Errors
    /// None does, and why: a sentence for each.
    pub fn text(&self, timeout: Duration) -> Result<String, String> {
        self.first(timeout, |text| Ok(text.to_owned()))
    }

    /// What `read` makes of the first text that it makes something of.
    ///
    /// # Errors
    /// As [`Controllers::text`]; and why `read` makes nothing of the others.
    pub fn first<T>(&self, timeout: Duration, read: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
        let (answer, answers) = channel();
        for url in &self.0 {
            let (url, answer) = (url.clone(), answer.clone());
            // Nobody waits for those that are slower than the first: each ends by its own time.
            std::thread::spawn(move || {
                let said = ask(&url, timeout);
                let _ = answer.send((url, said));
            });
        }
        drop(answer);
        let mut whys = Vec::new();
        for (url, said) in answers {
            match said.and_then(|text| read(&text)) {
                Ok(found) => return Ok(found),
                Err(why) => whys.push(format!("the controller at {url}: {why}")),
            }
        }
        Err(whys.join("\n  "))
    }
}

/// Whether the controller there has the file; none: it does not answer in time. Of several, the first is asked.
pub(crate) fn has_file(controllers: &Controllers, timeout: Duration) -> Option<bool> {
    page(controllers.urls().first()?, timeout).ok().map(|page| page.is_there)
}

fn page(url: &str, timeout: Duration) -> Result<Page, String> {
    Web::new(timeout, MAX_BYTES).get(&format!("{url}/topology"))
}

fn ask(url: &str, timeout: Duration) -> Result<String, String> {
    let page = page(url, timeout)?;
    match page.is_there {
        true => Ok(page.text),
        false => {
            Err(format!("{} for /topology: is this the admin port of a rack's controller?", page.status))
        }
    }
}

/// `http://HOST:PORT`, and what path follows.
fn url(place: &str) -> Result<String, String> {
    let wrong = || {
        format!("{place:?} is no controller's admin port: write HOST:PORT, as its --admin says (plain HTTP)")
    };
    let rest = place.strip_prefix("http://").unwrap_or(place).trim_end_matches('/');
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = authority.rsplit_once(':').ok_or_else(wrong)?;
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    // `tcp:HOST:PORT` is a place of the fabric, and `https://…` is asked by nobody.
    let is_host = host.starts_with('[') || !host.contains([':', '@']);
    let is_text = place.chars().all(|each| each.is_ascii_graphic());
    if is_port && !host.is_empty() && is_host && is_text {
        Ok(format!("http://{rest}"))
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    #[test]
    fn controllers_are_named_as_urls_and_files_as_paths() {
        for file in ["rack.toml", "/a/b.toml", "./http:/x", "a,b", "//x", "://x", "a b://x"] {
            assert!(Controllers::named(file.as_ref()).is_none(), "{file}");
        }
        for (text, urls) in [
            ("http://10.0.0.1:9100", vec!["http://10.0.0.1:9100"]),
            ("http://h:1/,h:2, http://[::1]:3", vec!["http://h:1", "http://h:2", "http://[::1]:3"]),
            ("http://h:1/services/rack", vec!["http://h:1/services/rack"]),
        ] {
            let named = Controllers::named(text.as_ref()).expect("a URL").expect(text);
            assert_eq!(named.urls(), urls);
            assert_eq!(Controllers::named(named.place().as_ref()), Some(Ok(named)));
        }
        for (text, words) in [
            ("https://h:1", "plain HTTP"),
            ("etcd://h:2379", "a rack is not in etcd"),
            ("http://h", "write HOST:PORT"),
            ("http://h:0", "write HOST:PORT"),
            ("http://h:1,", "write HOST:PORT"),
            ("http://tcp:h:1", "write HOST:PORT"),
            ("http://u@h:1", "write HOST:PORT"),
        ] {
            let error = Controllers::named(text.as_ref()).expect("no path").expect_err(text);
            assert!(error.contains(words), "{words:?} in {error:?}");
        }
        assert!(Controllers::parse(&vec!["h:1"; 17].join(",")).expect_err("too many").contains("16 at most"));
    }

    /// Answers one request so; its place.
    fn answers(status: &'static str, text: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("an address").to_string();
        std::thread::spawn(move || {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let _ = stream.read(&mut [0; 1024]);
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
                text.len()
            );
        });
        place
    }

    #[test]
    fn the_first_that_has_a_file_is_believed_and_others_say_why_not() {
        let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let nobody = nobody.expect("a port").to_string();
        let long = Duration::from_secs(60);
        let places = [nobody.clone(), answers("404 Not Found", ""), answers("200 OK", "slots = 8\n")];
        assert_eq!(Controllers::of(&places).expect("places").text(long), Ok("slots = 8\n".to_owned()));
        let places = [nobody, answers("404 Not Found", ""), answers("200 OK", "no")];
        let all = Controllers::of(&places).expect("places");
        let error = all.first(long, |text| Err::<(), _>(format!("it says {text:?}"))).expect_err("none");
        assert!(error.contains("404 Not Found for /topology") && error.contains("it says \"no\""), "{error}");
        assert_eq!(error.lines().count(), 3, "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_controllers_or_refused(text in "(http://|etcd://|)[a-z0-9:,/\\[\\]@. é]{0,24}") {
            if let Ok(found) = Controllers::parse(&text) {
                prop_assert_eq!(Controllers::parse(&found.place()), Ok(found));
            }
            let _ = Controllers::named(text.as_ref());
        }
    }
}
