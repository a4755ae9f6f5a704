//! The `ip` command of iproute2: lines in, and an error that says which line failed and what it printed.
//!
//! Why the command and not netlink: it is what a reader would type, a lab's network can be looked at line by line, and a batch of any
//! length is one process.
//!
//! It ends with its maker: else one that goes on alone would make namespaces after `lab down` had looked for them.

use super::LabError;
use super::network::Batch;
use serve::process::end_with_this_process;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs a batch.
pub fn run(batch: &Batch) -> Result<(), LabError> {
    let text = batch.lines.join("\n") + "\n";
    let within: Vec<&str> = batch.namespace.iter().flat_map(|namespace| ["-n", namespace]).collect();
    let mut command = Command::new("ip");
    command.args(&within).args(["-batch", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    end_with_this_process(&mut command);
    let mut child = command.spawn().map_err(LabError::NoIp)?;
    // One that fails early closes its end; what it says tells why.
    let _ = child.stdin.take().expect("it is piped").write_all(text.as_bytes());
    let output = child.wait_with_output().map_err(LabError::NoIp)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = failed_line(&said).and_then(|number| batch.lines.get(number.checked_sub(1)?));
    let line = [within.join(" "), line.map_or("-batch -", String::as_str).to_string()].join(" ");
    Err(LabError::Ip { line: line.trim().to_string(), said })
}

/// Of what a batch printed: `Command failed -:3`.
fn failed_line(said: &str) -> Option<usize> {
    let rest = said.split("Command failed -:").nth(1)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_failed_is_named() {
        assert_eq!(failed_line("RTNETLINK answers: File exists\nCommand failed -:12\n"), Some(12));
        assert_eq!(failed_line("Cannot open network namespace \"x\""), None);
    }
}
