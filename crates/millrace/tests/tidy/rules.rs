//! The rules, as functions from text to findings, and their tables.

/// Crates from top to bottom, and what each may import; `*` is all below it.
const ARROWS: &[(&str, &str)] = &[
    ("millrace", "*"),
    ("plan", "bench serve fabric rec model store codec ring protocol sim base"),
    ("prove", "bench serve client xdp fabric rec store codec ring protocol sim base"),
    ("bench", "serve client rec fabric codec ring protocol base"),
    ("client-c", "client fabric"),
    ("serve", "client rec xdp fabric engine store codec ring protocol base"),
    ("client", "fabric codec ring protocol base"),
    ("remote", "fabric codec ring base"),
    ("rec", "base"),
    ("model", "sim base"),
    ("xdp", "protocol base"),
    ("fabric", "codec ring protocol base"),
    ("engine", "ring base"),
    ("store", "base"),
    ("codec", "ring base"),
    ("ring", "base"),
    ("protocol", "base"),
    ("sim", "base"),
    ("faults", "base"),
    ("base", ""),
];

/// Folders of `serve` that are a service each, with what belongs to it.
const SERVICES: &[&[&str]] = &[&["kv"], &["inc"], &["proxy"], &["chain", "txn"], &["rec"], &["rpc"]];

/// What one service may import of another, and why.
const NEIGHBOURS: &[(&str, &str)] = &[
    ("proxy", "inc"), // A proxy is a client of the cache.
    ("rec", "rpc"),   // Clients of gRPC come to a model by the same gateway as to all services.
    ("kv", "inc"),    // A node may be the home of boxes.
    // Such a home serves the clients of its chain as replicas do.
    ("kv", "chain"),
    // The file of a cluster names members of both kinds.
    ("cluster", "inc"),
    ("cluster", "chain"),
    ("cluster", "txn"),
    // A node has services of all kinds.
    ("node", "kv"),
    ("node", "inc"),
    ("node", "proxy"),
    ("node", "chain"),
    ("node", "rec"),
    ("node", "rpc"),
];

/// Lines of a file at most.
const FILE_MAX: usize = 500;

/// Lines of a function that needs no excuse; how many are longer.
const SHORT_FUNCTION: usize = 70;
pub const LONG_FUNCTIONS: usize = 3;

/// Columns of a comment that needs no excuse; how many lines are wider.
const NARROW_COMMENT: usize = 160;
pub const WIDE_COMMENTS: usize = 0;

/// Lines of code with their numbers: no comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Crates that a manifest imports against the table.
pub fn refused(name: &str, manifest: &str) -> Vec<String> {
    let Some(at) = ARROWS.iter().position(|(of, _)| *of == name) else {
        return vec![format!("crates/{name}: add it to ARROWS, and to the table in ARCHITECTURE.md")];
    };
    let may = |other: &str| {
        let is_below = ARROWS[at..].iter().any(|(of, _)| *of == other);
        let allowed = ARROWS[at].1;
        is_below && (other == name || allowed == "*" || allowed.split(' ').any(|one| one == other))
    };
    let mut found = Vec::new();
    let mut imports = false;
    for (number, line) in (1..).zip(manifest.lines()) {
        if line.starts_with('[') {
            imports = line.ends_with("dependencies]");
        }
        let other = line.split(['.', ' ', '=']).next().expect("a first part");
        if imports && ARROWS.iter().any(|(of, _)| *of == other) && !may(other) {
            let place = format!("crates/{name}/Cargo.toml:{number}");
            found.push(format!("{place}: {name} may not import {other}: move what it needs down"));
        }
    }
    found
}

/// Imports of one service of `serve` by another, or by what all share.
pub fn trespasses(path: &str, text: &str) -> Vec<String> {
    let Some(inside) = path.strip_prefix("serve/src/") else { return Vec::new() };
    let own = inside.split(['/', '.']).next().expect("a first part");
    let service = |name: &str| SERVICES.iter().position(|service| service.contains(&name));
    let may = |other: &str| service(own) == service(other) || NEIGHBOURS.contains(&(own, other));
    let is_end = |c: char| !c.is_alphanumeric() && c != '_';
    let mut found = Vec::new();
    for (number, line) in code(text) {
        let named = line.split("crate::").skip(1).filter_map(|rest| rest.split(is_end).next());
        for other in named.filter(|other| service(other).is_some() && !may(other)) {
            let place = format!("crates/{path}:{number}");
            found.push(format!("{place}: {own} may not know {other}: move what both need out of it"));
        }
    }
    found
}

/// A file that is too long.
pub fn length(path: &str, lines: usize) -> Option<String> {
    (lines > FILE_MAX).then(|| format!("crates/{path}: {lines} lines: split it by what it does"))
}

/// Functions that are too long: as the formatter has it, one ends at the first brace that is indented as it is.
pub fn long_functions(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let before = ["const", "async", "unsafe", "extern", "\"C\""];
    let mut found = Vec::new();
    for (number, line) in code(text) {
        let head = line.trim_start();
        let mut words = head.split(' ').skip_while(|word| word.starts_with("pub") || before.contains(word));
        let opening = lines[number - 1..].iter().find(|line| line.ends_with(['{', '}', ';']));
        if words.next() != Some("fn") || opening.is_none_or(|line| !line.ends_with('{')) {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - head.len()]);
        let length = lines[number..].iter().position(|line| **line == end).map_or(0, |between| between + 2);
        if length > SHORT_FUNCTION {
            found.push(format!(
                "crates/{path}:{number}: a function of {length} lines: split it by what it does"
            ));
        }
    }
    found
}

/// Lines of comments that are too wide.
pub fn wide_comments(path: &str, text: &str) -> Vec<String> {
    let is_wide = |line: &str| line.trim_start().starts_with("//") && line.chars().count() > NARROW_COMMENT;
    let wide = (1..).zip(text.lines()).filter(|(_, line)| is_wide(line));
    wide.map(|(number, _)| format!("crates/{path}:{number}: break it at {NARROW_COMMENT} columns")).collect()
}

/// Where products use the system's temporary directory: sockets with short paths, and a place that their users may change.
const TEMPORARY: &[&str] = &[
    "bench/src/txn/mod.rs",
    "plan/src/host/check/node/calls.rs",
    "serve/src/admin/guard.rs",
    "serve/src/chain/up.rs",
    "serve/src/cluster/members.rs",
    "serve/src/rpc/serve.rs",
];

/// Temporary folders that somebody has to remove.
pub fn kept_folders(path: &str, text: &str) -> Vec<String> {
    let is_kept = |line: &str| line.contains("env::temp_dir") || line.contains("struct Folder(PathBuf)");
    let lines = code(text).filter(|(_, line)| is_kept(line) && !TEMPORARY.contains(&path));
    let what = "use tempfile::TempDir::with_prefix(\"millrace-\"), which is removed when it is dropped";
    lines.map(|(number, _)| format!("crates/{path}:{number}: {what}")).collect()
}

/// Paths in backticks that are not there.
pub fn missing_paths(map: &str, text: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let is_odd = |c: char| !c.is_alphanumeric() && !"/._-".contains(c);
    let is_path = |word: &str| word.contains('/') && !word.starts_with('/') && !word.contains(is_odd);
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = line.split('`').skip(1).step_by(2);
        for word in words.filter(|word| is_path(word) && !is_there(word)) {
            found.push(format!("{map}:{number}: there is no {word}: name it from `crates` on"));
        }
    }
    found
}

/// Tests that a page names behind a file of ours and that the file does not have: words in backticks with an underscore and without a path.
pub fn missing_tests(map: &str, text: &str, read: impl Fn(&str) -> String) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut file: Option<(&str, String)> = None;
        for word in line.split('`').skip(1).step_by(2) {
            if word.ends_with(".rs") {
                file = Some((word, read(word)));
            } else if word.contains('_')
                && let Some((path, code)) = &file
                && !is_test_of(word, code)
            {
                found
                    .push(format!("{map}:{number}: {path} has no test {word}: write down what holds it now"));
            }
        }
    }
    found
}

/// Whether a file has a test of this name.
fn is_test_of(name: &str, text: &str) -> bool {
    let head = format!("fn {name}(");
    let lines: Vec<&str> = text.lines().collect();
    let is_head = |at: usize| lines[at].trim_start().starts_with(&head);
    let attributes =
        |at: usize| lines[..at].iter().rev().take_while(|line| line.trim_start().starts_with("#["));
    let marked = |at: usize| attributes(at).any(|line| line.contains("#[test]"));
    (0..lines.len()).any(|at| is_head(at) && marked(at))
}

/// What shows that a mistake on purpose is chosen at run time.
const CHOICES: &[&str] = &[
    "planted: Option<",
    "planted: bool",
    "Option<Planted>",
    "planted == Some",
    "planted != Some",
    "if self.planted {",
    "match self.planted",
];

/// Mistakes on purpose that a value chooses in the shipped program, where a type (`protocol::planted::NoBugs`) must exclude them.
pub fn planted(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.iter().position(|line| line.starts_with("mod tests")).unwrap_or(lines.len());
    let is_test = |number: usize| {
        lines[number.saturating_sub(12)..number].iter().any(|line| line.contains("#[cfg(test)]"))
    };
    let chosen = code(text)
        .filter(|(number, line)| *number <= tests && CHOICES.iter().any(|sign| line.contains(sign)));
    let bad = chosen.filter(|(number, _)| !is_test(*number));
    bad.map(|(number, _)| format!("crates/{path}:{number}: make it a type parameter, or cfg(test)")).collect()
}

/// Where planted bugs belong. `random` is a module of tests.
pub fn is_proof(path: &str) -> bool {
    let proofs = [
        "/prove/",
        "/sim/",
        "/faults/",
        "/tests",
        "/simulation/",
        "/src/planted.rs",
        "/controller/random.rs",
    ];
    proofs.iter().any(|part| format!("/{path}").contains(part))
}
