use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn read(parents: &[&str], states: &[&str]) -> Option<TraceContext> {
    let mut headers = HeaderMap::new();
    for (name, values) in [(PARENT_FIELD, parents), (STATE_FIELD, states)] {
        for value in values {
            headers.append(name, HeaderValue::from_str(value).expect("a header value"));
        }
    }
    TraceContext::read(&headers)
}

fn parent(text: &str) -> Option<String> {
    let context = read(&[text], &[])?;
    Some(context.traceparent().to_str().expect("ASCII").to_owned())
}

fn passed_on(states: &[&str]) -> Option<String> {
    let context = read(&[&format!("00-{TRACE}-{SPAN}-01")], states).expect("a valid parent");
    context.tracestate().map(|state| state.to_str().expect("ASCII").to_owned())
}

#[test]
fn what_version_00_says_is_passed_on() {
    for flags in ["00", "01", "02", "03"] {
        let text = format!("00-{TRACE}-{SPAN}-{flags}");
        assert_eq!(parent(&text), Some(text));
    }
    let context = read(&[&format!("00-{TRACE}-{SPAN}-01")], &[]).expect("valid");
    assert!(context.is_sampled());
    assert_eq!((context.trace_id()[0], context.span_id()[1]), (0x4b, 0xf0));
    assert!(!read(&[&format!("00-{TRACE}-{SPAN}-02")], &[]).expect("valid").is_sampled());
}

#[test]
fn flags_that_nobody_knows_are_cleared() {
    let cleared = Some(format!("00-{TRACE}-{SPAN}-01"));
    assert_eq!(parent(&format!("00-{TRACE}-{SPAN}-fd")), cleared);
}

#[test]
fn a_later_version_is_read_by_what_it_begins_with() {
    let ours = Some(format!("00-{TRACE}-{SPAN}-01"));
    assert_eq!(parent(&format!("cc-{TRACE}-{SPAN}-01")), ours);
    assert_eq!(parent(&format!("cc-{TRACE}-{SPAN}-01-what the future brings")), ours);
    assert_eq!(parent(&format!("cc-{TRACE}-{SPAN}-01.more")), None);
}

#[test]
fn what_is_not_a_parent_is_refused() {
    let zero = "0";
    let wrong = [
        String::new(),
        "00".to_owned(),
        format!("00-{TRACE}-{SPAN}"),
        format!("00-{TRACE}-{SPAN}-0"),
        format!("00-{TRACE}-{SPAN}-01-"),
        format!("00-{TRACE}-{SPAN}-01-more"),
        format!("ff-{TRACE}-{SPAN}-01"),
        format!("0x-{TRACE}-{SPAN}-01"),
        format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
        format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
        format!("00-{TRACE}-{SPAN}-0A"),
        format!("00-{}-{SPAN}-01", zero.repeat(32)),
        format!("00-{TRACE}-{}-01", zero.repeat(16)),
        format!("00_{TRACE}-{SPAN}-01"),
        format!("00-{TRACE}_{SPAN}-01"),
        format!("00-{TRACE}-{SPAN}_01"),
        format!("00-{}-{SPAN}-01", "g".repeat(32)),
    ];
    for text in wrong {
        assert_eq!(parent(&text), None, "{text}");
    }
    let valid = format!("00-{TRACE}-{SPAN}-01");
    assert_eq!(read(&[&valid, &valid], &[]), None);
    assert_eq!(read(&[], &["a=1"]), None);
}

#[test]
fn a_valid_state_is_passed_on_as_it_came() {
    for state in ["a=1", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7", "fw529a3039@dt=x y z", "1=2"] {
        assert_eq!(passed_on(&[state]), Some(state.to_owned()));
    }
    assert_eq!(passed_on(&["a=1 , ,b=2"]), Some("a=1 , ,b=2".to_owned()));
    assert_eq!(passed_on(&["a=1", "b=2,c=3"]), Some("a=1,b=2,c=3".to_owned()));
}

#[test]
fn an_invalid_state_is_dropped_and_its_parent_stays() {
    let many = |n: usize| (0..n).map(|i| format!("k{i}=v")).collect::<Vec<_>>().join(",");
    assert!(passed_on(&[&many(32)]).is_some());
    let long = format!("a={}", "x".repeat(256));
    assert!(passed_on(&[&format!("{long},b={}", "x".repeat(251))]).is_some());
    let wrong = [
        String::new(),
        ",".to_owned(),
        "a".to_owned(),
        "a=".to_owned(),
        "=1".to_owned(),
        "A=1".to_owned(),
        "a=1,a=2".to_owned(),
        "a=b=c".to_owned(),
        "a b=1".to_owned(),
        "_a=1".to_owned(),
        many(33),
        format!("{}=1", "a".repeat(257)),
        format!("a={}", "x".repeat(257)),
        format!("{long},b={}", "x".repeat(252)),
    ];
    for state in wrong {
        assert_eq!(passed_on(&[&state]), None, "{state}");
    }
}
