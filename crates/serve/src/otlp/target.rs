//! Where metrics and spans are sent: what the command line says, else OpenTelemetry's variables.

use ::client::web::Tls;
use std::time::Duration;

/// How often metrics are sent, unless OTEL_METRIC_EXPORT_INTERVAL says otherwise.
const METRICS_INTERVAL: Duration = Duration::from_secs(10);
/// The shortest such time.
const METRICS_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The collector, and what it is to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Where spans go; none: they are not sent.
    pub traces: Option<String>,
    /// Where metrics go; none: they are not sent.
    pub metrics: Option<String>,
    /// Headers of each request.
    pub headers: Vec<(String, String)>,
    /// What is said of the process with all that is sent.
    pub resource: Vec<(String, String)>,
    /// How often metrics are sent.
    pub interval: Duration,
    /// Whom it believes, if others than the process does.
    pub tls: Option<Tls>,
}

/// Reads a URL.
///
/// # Errors
/// It is none that can be sent to. A sentence.
pub(super) fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace) => {
            Ok(text.to_owned())
        }
        _ => Err(format!("{text:?} is no URL; write for example http://127.0.0.1:4318")),
    }
}

impl Target {
    /// By the URL that was said, and what `variable` has; none: nothing is to be sent.
    ///
    /// # Errors
    /// What a variable says cannot be heeded. A sentence.
    pub fn of(
        said: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Target>, String> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_off =
            |name: &str, word: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
        if is_off("OTEL_SDK_DISABLED", "true") {
            return Ok(None);
        }
        let read = |name: &str| match variable(name) {
            Some(value) => url(&value).map(Some).map_err(|why| format!("{name}: {why}")),
            None => Ok(None),
        };
        let all = match said {
            Some(said) => Some(said.to_owned()),
            None => read("OTEL_EXPORTER_OTLP_ENDPOINT")?,
        };
        let below = |path: &str| all.as_ref().map(|all| format!("{}{path}", all.trim_end_matches('/')));
        // A variable of one signal has the whole path.
        let of = |own: &str, path: &str, exporter: &str| match read(own)? {
            _ if is_off(exporter, "none") => Ok(None),
            Some(own) => Ok::<_, String>(Some(own)),
            None => Ok(below(path)),
        };
        let traces = of("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces", "OTEL_TRACES_EXPORTER")?;
        let metrics = of("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "/v1/metrics", "OTEL_METRICS_EXPORTER")?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        if is_off("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc") {
            return Err("OTEL_EXPORTER_OTLP_PROTOCOL: OTLP is sent over HTTP with JSON (http/json), not by gRPC; collectors take it at port 4318".into());
        }
        let list = |name: &str| {
            variable(name).map_or(Ok(Vec::new()), |text| pairs(&text).map_err(|why| format!("{name}: {why}")))
        };
        let mut resource = own_resource();
        resource
            .extend(list("OTEL_RESOURCE_ATTRIBUTES")?.into_iter().filter(|(key, _)| key != "service.name"));
        let interval = match variable("OTEL_METRIC_EXPORT_INTERVAL") {
            None => METRICS_INTERVAL,
            Some(text) => match text.parse() {
                Ok(ms) => Duration::from_millis(ms).max(METRICS_INTERVAL_MIN),
                Err(_) => {
                    return Err(format!("OTEL_METRIC_EXPORT_INTERVAL: {text:?} is no count of milliseconds"));
                }
            },
        };
        let tls = match variable("OTEL_EXPORTER_OTLP_CERTIFICATE") {
            None => None,
            Some(file) => {
                let authorities = std::fs::read(&file)
                    .map_err(|error| format!("OTEL_EXPORTER_OTLP_CERTIFICATE: {file}: {error}"))?;
                Some(
                    Tls::new(&authorities, None)
                        .map_err(|why| format!("OTEL_EXPORTER_OTLP_CERTIFICATE: {why}"))?,
                )
            }
        };
        Ok(Some(Target {
            traces,
            metrics,
            headers: list("OTEL_EXPORTER_OTLP_HEADERS")?,
            resource,
            interval,
            tls,
        }))
    }

    /// Of this process.
    ///
    /// # Errors
    /// As [`Target::of`].
    pub fn of_process() -> Result<Option<Target>, String> {
        Target::of(super::SAID.get().map(String::as_str), |name| std::env::var(name).ok())
    }
}

/// What is known without being told.
fn own_resource() -> Vec<(String, String)> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let about = [
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("host.name", host),
        ("process.pid", std::process::id().to_string()),
    ];
    about.map(|(key, value)| (key.to_owned(), value)).into()
}

/// Reads `key=value,key=value`; values may be percent-encoded.
fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let one = |pair: &str| {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("{pair:?} is not KEY=VALUE"))?;
        let key = key.trim();
        let value = decoded(value.trim()).filter(|value| !value.contains(|c: char| c.is_control()));
        match value {
            Some(value) if !key.is_empty() && key.chars().all(|c| c.is_ascii_graphic() && c != ':') => {
                Ok((key.to_owned(), value))
            }
            _ => Err(format!("{pair:?} is not KEY=VALUE")),
        }
    };
    text.split(',').filter(|pair| !pair.trim().is_empty()).map(one).collect()
}

/// `%20` and its like; none: it is no text then.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let (b'%', [high, low, behind @ ..]) = (*first, after) else {
            bytes.push(*first);
            continue;
        };
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        bytes.push(digit(*high)? << 4 | digit(*low)?);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(said: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<Target>, String> {
        Target::of(said, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn what_is_said_goes_before_the_environment() {
        let variables =
            [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/"), ("OTEL_METRIC_EXPORT_INTERVAL", "500")];
        let by_variables = of(None, &variables).expect("good").expect("there is one");
        assert_eq!(by_variables.traces.as_deref(), Some("http://a:4318/v1/traces"));
        assert_eq!(by_variables.metrics.as_deref(), Some("http://a:4318/v1/metrics"));
        assert_eq!(by_variables.interval, Duration::from_millis(500));
        let said = of(Some("https://b/otlp"), &variables).expect("good").expect("there is one");
        assert_eq!(said.traces.as_deref(), Some("https://b/otlp/v1/traces"));
        assert_eq!(of(None, &[]), Ok(None));
        assert_eq!(of(Some("http://b"), &[("OTEL_SDK_DISABLED", "true")]), Ok(None));
    }

    #[test]
    fn signals_are_told_apart() {
        let own = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a/spans")];
        let target = of(None, &own).expect("good").expect("there is one");
        assert_eq!((target.traces.as_deref(), target.metrics), (Some("http://a/spans"), None));
        let off = [("OTEL_METRICS_EXPORTER", "none"), ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x=y")];
        let target = of(Some("http://a"), &off).expect("good").expect("there is one");
        assert_eq!((target.traces.as_deref(), target.metrics), (Some("http://a/v1/traces"), None));
        assert_eq!(target.headers, [("api-key".into(), "a b".into()), ("x".into(), "y".into())]);
    }

    #[test]
    fn resources_are_the_processes_and_what_is_added() {
        let added = [("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=prod,service.name=other")];
        let resource = of(Some("http://a"), &added).expect("good").expect("there is one").resource;
        let keys: Vec<&str> = resource.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["service.version", "host.name", "process.pid", "deployment.environment"]);
    }

    #[test]
    fn what_cannot_be_heeded_is_said_with_its_name() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "alone"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=%0a"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem"),
        ] {
            let said = (name != "OTEL_EXPORTER_OTLP_ENDPOINT").then_some("http://a");
            let why = of(said, &[(name, value)]).expect_err(name);
            assert!(why.contains(name), "{why}");
        }
        assert!(url("http:///x").is_err() && url("ftp://x").is_err() && url("http://a b").is_err());
    }

    proptest! {
        #[test]
        fn any_list_is_read_or_refused(text in "([a-z.]|=|,|%|[0-9A-Fa-f]|é| |\n){0,40}") {
            for (key, value) in pairs(&text).unwrap_or_default() {
                prop_assert!(!key.is_empty() && !value.contains('\n'));
            }
        }
    }
}
