//! If-Match and If-None-Match: what one lets through with a tag, the other stops.

#![no_main]

use corelane_server::fuzzing::conditions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], u16)| {
    let (field, version) = (input.0, i64::from(input.1) + 1);
    let nothing = b"";
    let Some((read, written)) = conditions(field, b"\"none\"", version) else {
        assert_eq!(conditions(b"*", field, version), None, "one grammar for both fields");
        return;
    };
    assert_eq!(read, written);
    let unless = conditions(b"*", field, version).expect("one grammar for both fields");
    assert_eq!(unless.0, unless.1);
    // Strong equality is weak equality, too (RFC 9110 section 8.8.3.2).
    assert!(!(read && unless.0));
    assert_eq!(conditions(nothing, nothing, version), Some((false, false)));
    // One more tag that names the version: it is let through.
    if !field.trim_ascii().starts_with(b"*") {
        let more = [field, format!(", \"{version}\"").as_bytes()].concat();
        assert_eq!(conditions(&more, nothing, version), Some((true, true)));
    }
});
