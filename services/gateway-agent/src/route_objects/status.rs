//! Status of objects: its content, and whether it must be written.

use serde_json::{Value, json};

pub(crate) const CONTROLLER: &str = "corelane/gateway-agent";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) status: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Verdict {
    pub(crate) fn yes(reason: &'static str) -> Self {
        Self { status: true, reason, message: String::new() }
    }

    pub(crate) fn no(reason: &'static str, message: &str) -> Self {
        Self { status: false, reason, message: message.to_owned() }
    }

    pub(crate) fn condition(&self, kind: &str, generation: i64) -> Value {
        let Self { status, reason, message } = self;
        let status = if *status { "True" } else { "False" };
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "observedGeneration": generation,
        })
    }
}

/// Adds times to all conditions. Unchanged conditions keep their times.
///
/// All pods of a gateway compute the same status, because it depends only on the objects. A pod
/// writes only differences, and only if the object has not changed since the pod read it. The first
/// pod therefore succeeds, the other pods find nothing left to write, and the pods do not need a
/// leader.
pub(crate) fn timed(wanted: &mut Value, known: &Value, now: &str) {
    match wanted {
        Value::Object(fields) if fields.contains_key("observedGeneration") => {
            let same = known["status"] == fields["status"] && known["type"] == fields["type"];
            let time = known["lastTransitionTime"].as_str().filter(|_| same).unwrap_or(now);
            fields.insert("lastTransitionTime".to_owned(), json!(time));
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                timed(value, &known[key.as_str()], now);
            }
        }
        Value::Array(items) => {
            for item in items {
                let alike = |it: &&Value| {
                    ["type", "name", "parentRef", "ancestorRef"]
                        .iter()
                        .all(|key| it[*key] == item[*key])
                };
                let known = known.as_array().and_then(|all| all.iter().find(alike));
                timed(item, known.unwrap_or(&Value::Null), now);
            }
        }
        _ => {}
    }
}

/// A list in a status that several controllers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) list: &'static str,
    /// Key of the reference that distinguishes a controller's entries.
    reference: &'static str,
    limit: usize,
}

pub(crate) const PARENTS: Shared = Shared { list: "parents", reference: "parentRef", limit: 32 };
pub(crate) const ANCESTORS: Shared =
    Shared { list: "ancestors", reference: "ancestorRef", limit: 16 };

/// The status with new entries, which replace the agent's own entries with the same references;
/// entries of other controllers stay in place.
pub(crate) fn entries(
    of: &Shared,
    known: &Value,
    own: impl Fn(&Value) -> bool,
    wanted: &[Value],
) -> Value {
    let known = known[of.list].as_array().cloned().unwrap_or_default();
    let mut left = wanted.to_vec();
    let mut all = Vec::new();
    for entry in known {
        let same = |it: &Value| it[of.reference] == entry[of.reference];
        if !own(&entry) {
            all.push(entry);
        } else if let Some(at) = left.iter().position(same) {
            all.push(left.remove(at));
        }
    }
    let room = of.limit.saturating_sub(all.len());
    all.extend(left.into_iter().take(room));
    json!({of.list: all})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_while_its_status_is_the_same() {
        let of = |verdict: Verdict, time: &str| {
            let mut condition = verdict.condition("Accepted", 2);
            condition["lastTransitionTime"] = json!(time);
            json!({"parents": [{"parentRef": {"name": "a"}, "conditions": [condition]}]})
        };
        let known = of(Verdict::yes("Accepted"), "then");
        for (verdict, time) in
            [(Verdict::yes("Other"), "then"), (Verdict::no("Accepted", "words"), "now")]
        {
            let mut wanted = of(verdict.clone(), "");
            timed(&mut wanted, &known, "now");
            assert_eq!(wanted, of(verdict, time));
        }
    }

    #[test]
    fn what_others_say_of_a_route_stays_where_it_is() {
        let parent = |name: &str, words: &str| json!({"parentRef": {"name": name}, "said": words});
        let known =
            json!({"parents": [parent("a", "old"), parent("other", ""), parent("gone", "")]});
        let own = |it: &Value| it["parentRef"]["name"] != "other";
        let found = entries(&PARENTS, &known, own, &[parent("new", ""), parent("a", "new")]);
        let wanted = [parent("a", "new"), parent("other", ""), parent("new", "")];
        assert_eq!(found["parents"], json!(wanted));
    }
}
