//! ReferenceGrants permit references from objects in other namespaces to their own namespace.

use super::objects::{GROUP, GrantSpec, Grantee, ReferenceGrant};

#[derive(Clone, Debug, Default)]
pub(crate) struct Grants<'a>(pub(crate) Vec<&'a ReferenceGrant>);

impl Grants<'_> {
    /// Whether a Gateway API object may refer to a core object. References within a namespace are
    /// always allowed.
    pub(crate) fn permit(&self, from: (&str, &str), kind: &str, to: (&str, &str)) -> bool {
        let permits = |spec: &GrantSpec| {
            let origin = |it: &Grantee| {
                (it.group.as_str(), it.kind.as_str(), it.namespace.as_str())
                    == (GROUP, from.0, from.1)
            };
            let named =
                |it: &Option<String>| it.as_deref().is_none_or(|it| it.is_empty() || it == to.1);
            let target = |it: &Grantee| {
                (it.group.as_str(), it.kind.as_str()) == ("", kind) && named(&it.name)
            };
            spec.from.iter().any(origin) && spec.to.iter().any(target)
        };
        let there = |it: &&&ReferenceGrant| it.metadata.namespace.as_deref() == Some(to.0);
        from.1 == to.0 || self.0.iter().filter(there).any(|it| permits(&it.spec))
    }
}
