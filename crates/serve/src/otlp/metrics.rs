//! A page of metrics as OTLP's JSON: what a collector takes at `/v1/metrics`. Names are those of `/metrics` without unit and `_total`, which OTLP says by
//! itself, so that a collector that hands them on to Prometheus gives them their names again.

use crate::metrics::{Buckets, Kind, Number, Page, Sample, Value};
use serde_json::{Value as Json, json};

/// What is said with all samples.
pub(super) struct About<'a> {
    /// Of the process.
    pub resource: &'a [(String, String)],
    /// Whose metrics they are.
    pub service: &'a str,
    /// Since when it counts, and of when the samples are; nanoseconds since 1970.
    pub begin_ns: u64,
    pub now_ns: u64,
}

/// The page.
pub(super) fn body(page: &Page, about: &About<'_>) -> String {
    let metrics: Vec<Json> = page
        .families()
        .map(|(family, samples)| {
            let points: Vec<Json> = samples.iter().map(|sample| point(sample, about)).collect();
            let (kind, data) = match family.kind {
                Kind::Gauge => ("gauge", json!({ "dataPoints": points })),
                // 2: cumulative.
                Kind::Counter => ("sum", json!({ "dataPoints": points, "aggregationTemporality": 2, "isMonotonic": true })),
                Kind::Histogram => ("histogram", json!({ "dataPoints": points, "aggregationTemporality": 2 })),
            };
            json!({ "name": family.base_name(), "description": family.help, "unit": unit(family.unit), kind: data })
        })
        .collect();
    let named = [("service.name", about.service)].into_iter();
    let attributes: Vec<Json> = named
        .chain(about.resource.iter().map(|(key, value)| (key.as_str(), value.as_str())))
        .map(|(key, value)| attribute(key, value))
        .collect();
    let scope = json!({ "name": "millrace", "version": env!("CARGO_PKG_VERSION") });
    json!({
        "resourceMetrics": [{
            "resource": { "attributes": attributes },
            "scopeMetrics": [{ "scope": scope, "metrics": metrics }],
        }]
    })
    .to_string()
}

fn attribute(key: &str, value: &str) -> Json {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// As UCUM writes it.
fn unit(unit: Option<&str>) -> &'static str {
    match unit {
        Some("seconds") => "s",
        Some("bytes") => "By",
        Some("ratio") => "1",
        _ => "",
    }
}

fn point(sample: &Sample, about: &About<'_>) -> Json {
    let attributes: Vec<Json> = sample.labels.iter().map(|(key, value)| attribute(key, value)).collect();
    let mut point = match &sample.value {
        // 64-bit numbers are texts in protobuf's JSON; it has no word for those that are not finite.
        Value::Number(Number::Whole(count)) => {
            json!({ "asInt": i64::try_from(*count).unwrap_or(i64::MAX).to_string() })
        }
        Value::Number(Number::Real(real)) if real.is_finite() => json!({ "asDouble": real }),
        Value::Number(Number::Real(real)) => {
            json!({ "asDouble": real.to_string().replace("inf", "Infinity") })
        }
        Value::Buckets(buckets) => histogram(buckets),
    };
    point["attributes"] = Json::Array(attributes);
    point["startTimeUnixNano"] = about.begin_ns.to_string().into();
    point["timeUnixNano"] = about.now_ns.to_string().into();
    point
}

fn histogram(buckets: &Buckets) -> Json {
    let each = buckets.each();
    let counts: Vec<String> = each.iter().map(|(_, count)| count.to_string()).collect();
    let ends: Vec<f64> = each.iter().map(|(end, _)| *end).filter(|end| end.is_finite()).collect();
    json!({ "count": buckets.count.to_string(), "sum": buckets.sum, "bucketCounts": counts, "explicitBounds": ends })
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::families! { "millrace_test_";
        CALLS counter "calls" count ["method"] "Calls by method.";
        USED gauge "used" ratio [] "Part that is used.";
        TIME histogram "call" seconds [] "How long they took.";
    }

    #[test]
    fn samples_are_written_as_otlp_has_them() {
        let mut page = Page::default();
        page.set_service(Some("cache"));
        page.add(CALLS, &["a\"b"], 7u64);
        page.set_service(None);
        page.add(USED, &[], 0.5);
        page.add(USED, &[], f64::INFINITY);
        page.add_buckets(TIME, &[], &Buckets { steps: vec![(0.001, 1), (0.1, 2)], count: 3, sum: 4.5 });
        let resource = [("host.name".to_owned(), "h".to_owned())];
        let about = About { resource: &resource, service: "kv", begin_ns: 1, now_ns: 2 };
        let body: Json = serde_json::from_str(&body(&page, &about)).expect("JSON");
        let of_process = &body["resourceMetrics"][0];
        assert_eq!(of_process["resource"]["attributes"][0], attribute("service.name", "kv"));
        assert_eq!(of_process["resource"]["attributes"][1], attribute("host.name", "h"));
        let metrics = &of_process["scopeMetrics"][0]["metrics"];
        let attributes = [attribute("service", "cache"), attribute("method", "a\"b")];
        let times = json!({ "startTimeUnixNano": "1", "timeUnixNano": "2" });
        let with = |mut point: Json, attributes: &[Json]| {
            point["attributes"] = attributes.into();
            point["startTimeUnixNano"] = times["startTimeUnixNano"].clone();
            point["timeUnixNano"] = times["timeUnixNano"].clone();
            point
        };
        assert_eq!(
            metrics[0],
            json!({
                "name": "millrace_test_calls", "description": "Calls by method.", "unit": "",
                "sum": { "dataPoints": [with(json!({ "asInt": "7" }), &attributes)], "aggregationTemporality": 2, "isMonotonic": true },
            })
        );
        let points =
            [json!({ "asDouble": 0.5 }), json!({ "asDouble": "Infinity" })].map(|point| with(point, &[]));
        assert_eq!(
            metrics[1],
            json!({ "name": "millrace_test_used", "description": "Part that is used.", "unit": "1", "gauge": { "dataPoints": points } })
        );
        let times = json!({ "count": "3", "sum": 4.5, "bucketCounts": ["1", "1", "1"], "explicitBounds": [0.001, 0.1] });
        assert_eq!(metrics[2]["histogram"]["dataPoints"][0], with(times, &[]));
        assert_eq!((&metrics[2]["name"], &metrics[2]["unit"]), (&"millrace_test_call".into(), &"s".into()));
    }
}
