//! If-Match and If-None-Match: for the same tag exactly one of them is true.
//!
//! The first 2 bytes of the input are the version of the resource, less 1.

use corelane_server::fuzzing::conditions;

pub(super) fn run(input: &[u8]) {
    let Some((version, field)) = input.split_first_chunk::<2>() else { return };
    let version = i64::from(u16::from_le_bytes(*version)) + 1;
    let nothing = b"";
    let Some((read, written)) = conditions(field, b"\"none\"", version) else {
        assert_eq!(conditions(b"*", field, version), None, "one grammar for both fields");
        return;
    };
    assert_eq!(read, written);
    let unless = conditions(b"*", field, version).expect("one grammar for both fields");
    assert_eq!(unless.0, unless.1);
    // Strong equality implies weak equality (RFC 9110 section 8.8.3.2).
    assert!(!(read && unless.0));
    assert_eq!(conditions(nothing, nothing, version), Some((false, false)));
    // An additional tag with the version matches.
    if !field.trim_ascii().starts_with(b"*") {
        let more = [field, format!(", \"{version}\"").as_bytes()].concat();
        assert_eq!(conditions(&more, nothing, version), Some((true, true)));
    }
}
