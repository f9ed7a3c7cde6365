//! Encodes a report as a header value.

use http::HeaderValue;

use super::LoadReports;
use super::sampler::Report;

/// The header value of a report; `None` if reports are off.
///
/// The keys are the fields of `xds.data.orca.v3.OrcaLoadReport`. Envoy drops a report with an
/// unknown key (source/common/orca/orca_parser.cc).
pub(super) fn header_value(report: &Report, form: LoadReports) -> Option<HeaderValue> {
    let Report { utilization, rps, eps, expected_wait, in_flight } = report;
    let text = match form {
        LoadReports::Off => return None,
        LoadReports::Text => format!(
            "TEXT application_utilization={utilization:.4},rps_fractional={rps:.3},eps={eps:.3},\
             named_metrics.expected_wait={expected_wait:.6},named_metrics.in_flight={in_flight}"
        ),
        LoadReports::Json => format!(
            "JSON {{\"application_utilization\":{utilization:.4},\"rps_fractional\":{rps:.3},\
             \"eps\":{eps:.3},\"named_metrics\":{{\"expected_wait\":{expected_wait:.6},\
             \"in_flight\":{in_flight}}}}}"
        ),
    };
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: Report = Report {
        utilization: 0.02,
        rps: 1234.5678,
        eps: 0.0,
        expected_wait: 0.00125,
        in_flight: 7,
    };

    #[test]
    fn both_forms_say_the_same() {
        let text = header_value(&REPORT, LoadReports::Text).expect("a value");
        assert_eq!(
            text,
            "TEXT application_utilization=0.0200,rps_fractional=1234.568,eps=0.000,\
             named_metrics.expected_wait=0.001250,named_metrics.in_flight=7"
        );
        let json = header_value(&REPORT, LoadReports::Json).expect("a value");
        let json = json.to_str().expect("ASCII").strip_prefix("JSON ").expect("the prefix");
        let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(
            json,
            serde_json::json!({
                "application_utilization": 0.02, "rps_fractional": 1234.568, "eps": 0.0,
                "named_metrics": {"expected_wait": 0.00125, "in_flight": 7},
            })
        );
        assert_eq!(header_value(&REPORT, LoadReports::Off), None);
    }
}
