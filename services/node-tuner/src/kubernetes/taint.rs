//! The taint of nodes that are not prepared.

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Api;
use kube::api::{Patch, PatchParams};

use super::refused_with;

const VALUE: &str = "unprepared";
const EFFECT: &str = "NoSchedule";

/// Maximum conflicts: the kubelet and controllers write to the node, too.
const TRIES: usize = 5;

/// Adds or removes the taint. Returns whether that changed anything.
pub(crate) async fn set(api: &Api<Node>, node: &str, key: &str, on: bool) -> kube::Result<bool> {
    let mut tries = 1;
    loop {
        let found = api.get(node).await?;
        let taints = found.spec.as_ref().and_then(|it| it.taints.clone()).unwrap_or_default();
        let Some(wanted) = with(taints, key, on) else { return Ok(false) };
        // With the version that was read, so that concurrent changes are not lost (409).
        let patch = serde_json::json!({
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "spec": {"taints": wanted},
        });
        match api.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => return Ok(true),
            Err(error) if refused_with(&error, 409) && tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The new taints; `None` if nothing changes.
fn with(mut taints: Vec<Taint>, key: &str, on: bool) -> Option<Vec<Taint>> {
    let ours = |it: &Taint| it.key == key && it.effect == EFFECT;
    match (taints.iter().any(ours), on) {
        (false, true) => {
            let (key, effect) = (key.to_owned(), EFFECT.to_owned());
            taints.push(Taint { key, effect, value: Some(VALUE.to_owned()), time_added: None });
        }
        // With any value: the one that registered the node may have set another.
        (true, false) => taints.retain(|it| !ours(it)),
        _ => return None,
    }
    Some(taints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_so_yet_is_changed() {
        let taint = |key: &str, effect: &str, value: &str| Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            value: Some(value.to_owned()),
            time_added: None,
        };
        let other = taint("other", EFFECT, "");
        let evicts = taint("ours", "NoExecute", VALUE);
        let ours = taint("ours", EFFECT, VALUE);
        let registered = taint("ours", EFFECT, "another");
        for (before, on, after) in [
            (vec![], true, Some(vec![&ours])),
            (vec![&other, &evicts], true, Some(vec![&other, &evicts, &ours])),
            (vec![&other, &ours], true, None),
            (vec![&registered], true, None),
            (vec![], false, None),
            (vec![&other, &evicts], false, None),
            (vec![&other, &ours, &evicts], false, Some(vec![&other, &evicts])),
            (vec![&registered], false, Some(vec![])),
        ] {
            let owned = |taints: Vec<&Taint>| taints.into_iter().cloned().collect::<Vec<_>>();
            assert_eq!(with(owned(before), "ours", on), after.map(owned));
        }
    }
}
