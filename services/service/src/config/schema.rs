//! JSON Schema of a configuration file, for editors and for checks before a rollout.

use serde_json::{Map, Value, json};

use super::{Key, Program};

/// JSON Schema version. The keywords used here have had the same meaning since draft 6.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

impl Program {
    /// The file's JSON Schema: tables and keys with descriptions, defaults, and the values that
    /// each key's parser accepts.
    pub fn schema(&self) -> Value {
        let mut root = table(&format!("Configuration of {}", self.name));
        for key in &self.keys {
            let (path, name) = key.name.rsplit_once('.').unwrap_or(("", key.name));
            let mut at = &mut root;
            for part in path.split('.').filter(|part| !part.is_empty()) {
                at = &mut at["properties"][part];
                if at.is_null() {
                    *at = table(&format!("Settings of {path}"));
                }
            }
            at["properties"][name] = self.value(key);
        }
        root["$schema"] = DIALECT.into();
        root
    }

    fn value(&self, key: &Key) -> Value {
        let (variable, help) = (key.variable(self.prefix), key.help);
        let (mut schema, allowed) = match (key.allowed)() {
            Some(allowed) if help.contains(&allowed.text) => (allowed.schema, String::new()),
            Some(allowed) => (allowed.schema, format!("Allowed: {}. ", allowed.text)),
            None => (json!({"type": "string"}), String::new()),
        };
        let number = key.default.parse::<u64>().ok().filter(|_| takes_numbers(&schema));
        schema["default"] = number.map_or_else(|| key.shown_default().into(), Value::from);
        schema["description"] = format!("{help}. {allowed}Environment: {variable}.").into();
        schema
    }
}

fn table(title: &str) -> Value {
    json!({"title": title, "type": "object", "additionalProperties": false, "properties": Map::new()})
}

fn takes_numbers(schema: &Value) -> bool {
    schema["type"].as_array().is_some_and(|types| types.contains(&"integer".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    const fn key(
        name: &'static str,
        default: &'static str,
        allowed: fn() -> Option<value::Allowed>,
    ) -> Key {
        Key { name, default, help: "Help", allowed }
    }

    #[test]
    fn tables_hold_what_the_parsers_say() {
        let keys = vec![
            key("name", "a", || value::allowed(value::text)),
            key("limits.slots", "8", || value::allowed(value::number(1, 9))),
            key("limits.of.one", "off", || value::allowed(value::optional(value::number(1, 9)))),
            key("limits.key", "hunter2", || value::allowed(value::secret)),
            key("limits.names", "off", || {
                value::allowed(value::optional(value::list(value::text)))
            }),
            key("limits.mode", "a", || {
                value::allowed(value::choice(&[("a", 1), ("b", 2), ("c", 3)]))
            }),
        ];
        let program =
            Program { name: "demo", version: "1", about: "", prefix: "DEMO_", others: &[], keys };
        let schema = program.schema();
        let name = json!({"type": "string", "default": "a", "description": "Help. Environment: DEMO_NAME."});
        assert_eq!(schema["properties"]["name"], name);
        let limits = &schema["properties"]["limits"];
        assert_eq!(limits["additionalProperties"], false);
        let (slots, mode) = (&limits["properties"]["slots"], &limits["properties"]["mode"]);
        assert_eq!((&slots["minimum"], &slots["default"]), (&json!(1), &json!(8)));
        let description =
            "Help. Allowed: a whole number from 1 to 9. Environment: DEMO_LIMITS_SLOTS.";
        assert_eq!(slots["description"], description);
        assert_eq!(mode["enum"], json!(["a", "b", "c"]));
        assert_eq!(limits["properties"]["key"]["writeOnly"], true);
        assert_eq!(limits["properties"]["key"]["default"], "(not shown)");
        let names = &limits["properties"]["names"]["anyOf"][1];
        assert_eq!(names["anyOf"][1], json!({"type": "array", "items": {"type": "string"}}));
        let one = &limits["properties"]["of"]["properties"]["one"];
        assert_eq!(
            (&one["anyOf"][0], &one["default"]),
            (&json!({"enum": ["off", false]}), &json!("off"))
        );
    }
}
