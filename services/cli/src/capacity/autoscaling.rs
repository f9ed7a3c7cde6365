//! HorizontalPodAutoscaler values for charts/service.

use corelane_cli::model::{Autoscaling, Bound};

use super::answer::Answer;
use super::text::whole;
use crate::shell::quoted;

/// If `service` is set, scales on its required replicas, and otherwise on the busy share.
pub(crate) fn render(
    answer: &Answer,
    service: Option<&str>,
    arguments: &[String],
) -> Result<String, String> {
    if service.is_none() && answer.model.knee().bound == Bound::Slots {
        return Err(format!(
            "--hpa=busy: a lane's {} slots are in use before the lane is busy, so the busy share does not show the \
             load; expected --hpa --service NAME, or more --slots",
            answer.model.replica().slots
        ));
    }
    let (Some(hpa), Some(plan)) = (answer.autoscaling, answer.plan) else {
        return Err(
            "--hpa: no number of replicas meets the target; expected a longer time".to_owned()
        );
    };
    let Autoscaling { busy, rate, min, max } = hpa;
    // Rounded down, because scaling up early is better than late.
    let busy = (busy * 1000.0).floor().max(1.0);
    let (says, follows) = match service {
        Some(service) => (
            "It scales\n# on the record service:corelane_replicas_required:count.".to_owned(),
            required(service),
        ),
        None => (
            format!(
                "With lanes busy {}% of the time, it handles {} requests/s,\n\
                 # so the load can grow by {}% before a new replica is ready. Spare replicas: {}.",
                busy / 10.0,
                whole(rate),
                answer.growth * 100.0,
                answer.spare
            ),
            share(busy),
        ),
    };
    Ok(format!(
        "\
# Written by: {}
# A replica handles {} requests/s within the target. {says}
autoscaling:
  enabled: true
  minReplicas: {min}
  maxReplicas: {max}
  # Scale on lanes, not on CPU utilization.
  cpuPercent: 0
{follows}",
        command(arguments),
        whole(plan.carried),
    ))
}

fn share(busy: f64) -> String {
    format!(
        "\x20 metrics:
    - type: Pods
      pods:
        metric: {{name: corelane_lane_busy_ratio}}
        target: {{type: AverageValue, averageValue: {busy}m}}
  behavior:
    # A replica needs time to warm up, and most drops of load are short.
    scaleDown:
      stabilizationWindowSeconds: 300
      # One pod of a small fleet, a tenth of a large fleet.
      policies:
        - {{type: Pods, value: 1, periodSeconds: 60}}
        - {{type: Percent, value: 10, periodSeconds: 60}}
"
    )
}

/// Scales on an average of 1, which yields exactly the required replicas.
fn required(service: &str) -> String {
    let service = serde_json::Value::from(service);
    format!(
        "\x20 metrics:
    - type: External
      external:
        metric: {{name: corelane_replicas_required, selector: {{matchLabels: {{service: {service}}}}}}}
        target: {{type: AverageValue, averageValue: \"1\"}}
  behavior:
    # The record includes spare replicas and the load's trend, so a minute is enough.
    scaleDown:
      stabilizationWindowSeconds: 60
      policies:
        - {{type: Percent, value: 50, periodSeconds: 60}}
"
    )
}

fn command(arguments: &[String]) -> String {
    let quoted = arguments.iter().map(|word| quoted(word));
    let words: Vec<_> = ["corelane".to_owned()].into_iter().chain(quoted).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_given_again() {
        let words = ["capacity", "--mix", "GET /it's=100%", "--p99", "20ms"].map(str::to_owned);
        assert_eq!(command(&words), r"corelane capacity --mix 'GET /it'\''s=100%' --p99 20ms");
    }
}
