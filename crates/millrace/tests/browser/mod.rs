//! Pages in a headless Chromium, as node drives it: `browser.mjs` beside this file is what all looks have in common.
//!
//! Wants node, Chromium (Debian: `chromium`) and the packages puppeteer-core and axe-core (npm) in the folder that `MILLRACE_NODE_MODULES` names,
//! `target/peers/npm/node_modules` otherwise. Pictures are left in `target/live`.

// Each suite is a program of its own and uses its own part of this module.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where pictures are left.
pub fn pictures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/live")
}

/// Node with one of the scripts beside this file and its first two arguments, packages and browser; or what is missing.
pub fn node(script: &str) -> Result<Command, &'static str> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os("MILLRACE_NODE_MODULES").map(PathBuf::from);
    let modules = named.unwrap_or_else(|| home.join("../../target/peers/npm/node_modules"));
    let runs = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !runs("node") {
        return Err("there is no node (Debian: npm)");
    }
    if !modules.join("puppeteer-core").is_dir() || !modules.join("axe-core").is_dir() {
        return Err(
            "there is no puppeteer-core or axe-core: npm install --prefix target/peers/npm puppeteer-core axe-core",
        );
    }
    let chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let found = chromium.into_iter().find(|program| Path::new(program).exists());
    let chromium = found.ok_or("there is no Chromium (Debian: chromium)")?;
    let mut node = Command::new("node");
    node.arg(home.join("tests/browser").join(script)).arg(modules).arg(chromium);
    Ok(node)
}

/// What a script says in the end.
pub fn says(mut node: Command) -> serde_json::Value {
    let output = node.stderr(Stdio::inherit()).output().expect("node");
    assert!(
        output.status.success(),
        "what is wrong is said above: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Looks at pages in files: axe, two widths, light and dark, their length, whom they ask, texts of drawings (`pages.mjs`). `Err` says what is missing for it.
pub fn look_at(pages: &[PathBuf]) -> Result<(), &'static str> {
    let mut node = node("pages.mjs")?;
    node.arg(pictures()).args(pages);
    println!("{}", says(node));
    Ok(())
}
