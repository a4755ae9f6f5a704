//! Of what a program knows of its cluster: where chains may be, and where the file is in which a rack is, on a disk or at controllers.
//!
//! A controller's admin port is that of a rack (`GET /topology`: the cluster's file) or of a chain (`GET /chain`: its replicas): it is asked which.

use crate::chain::Source;
use crate::controllers::{self, Controllers};
use crate::file::{self, Parts};
use std::path::PathBuf;
use std::time::Duration;

/// What a controller turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A rack's: it has the file of the cluster.
    Rack,
    /// It answers, and has no such file.
    Other,
    /// It does not answer.
    Silent,
}

/// The same sources, with the file of the cluster in place of controllers that have it. Those that are silent are asked for it, too, later.
pub(super) fn with_files(sources: Vec<Source>, timeout: Duration) -> Vec<Source> {
    let places: Vec<String> = sources
        .iter()
        .filter_map(|source| match source {
            Source::Controller(place) => Some(place.clone()),
            _ => None,
        })
        .collect();
    if places.is_empty() {
        return sources;
    }
    let kinds: Vec<Kind> = std::thread::scope(|scope| {
        let asked: Vec<_> = places.iter().map(|place| scope.spawn(|| kind(place, timeout))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap_or(Kind::Silent)).collect()
    });
    if !kinds.contains(&Kind::Rack) {
        return sources;
    }
    let is = |wanted: &[Kind], place: &String| {
        places.iter().zip(&kinds).any(|(one, kind)| one == place && wanted.contains(kind))
    };
    let with_file: Vec<&String> =
        places.iter().filter(|place| is(&[Kind::Rack, Kind::Silent], place)).collect();
    let file = Controllers::of(&with_file).map(|controllers| Source::File(controllers.place().into()));
    let mut kept: Vec<Source> = sources
        .into_iter()
        .filter(|source| match source {
            Source::Controller(place) => is(&[Kind::Other], place),
            _ => true,
        })
        .collect();
    // One of them answered at this place, so that it is one; too many of them are cut off nowhere else.
    kept.extend(file);
    kept
}

fn kind(place: &str, timeout: Duration) -> Kind {
    // What is wrong with a place is said where replicas are looked for there.
    let Ok(controllers) = Controllers::parse(place) else { return Kind::Other };
    match controllers::has_file(&controllers, timeout) {
        Some(true) => Kind::Rack,
        Some(false) => Kind::Other,
        None => Kind::Silent,
    }
}

/// Where chains may be found, and the first file that has a rack. A file that cannot be read stays a place to look for chains: there it is said why.
pub(super) fn split(sources: Vec<Source>) -> (Vec<Source>, Option<PathBuf>) {
    let mut rack = None;
    let has_chains = |source: &Source| {
        let Source::File(path) = source else { return true };
        let parts = file::parts(path).unwrap_or(Parts { rack: false, chains: true });
        if parts.rack && rack.is_none() {
            rack = Some(path.clone());
        }
        parts.chains || !parts.rack
    };
    (sources.into_iter().filter(has_chains).collect(), rack)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    /// A controller that answers everything so, until the test ends; its place.
    fn controller(status: &'static str, text: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("an address").to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let _ = stream.read(&mut [0; 1024]);
                let length = text.len();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close");
                let _ = write!(stream, "{head}\r\n\r\n{text}");
            }
        });
        place
    }

    #[test]
    fn controllers_of_a_rack_stand_for_the_file_and_those_of_chains_for_themselves() {
        let rack = controller("200 OK", "[[box]]\n");
        let chain = controller("404 Not Found", "");
        let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let nobody = nobody.expect("a port").to_string();
        let of = |places: &[&String]| -> Vec<Source> {
            places.iter().map(|place| Source::Controller((*place).clone())).collect()
        };
        let long = Duration::from_secs(60);
        assert_eq!(with_files(of(&[&chain, &nobody]), long), of(&[&chain, &nobody]), "as it was");
        let file = Source::File(format!("http://{rack},http://{nobody}").into());
        assert_eq!(
            with_files(of(&[&rack, &chain, &nobody]), long),
            [of(&[&chain]), vec![file.clone()]].concat()
        );
        let path = match &file {
            Source::File(path) => path.clone(),
            _ => unreachable!("it was made so"),
        };
        assert_eq!(split(vec![file]), (Vec::new(), Some(path)), "what controllers say is read as a file is");
    }
}
