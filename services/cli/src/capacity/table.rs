//! Renders the answer as a table.

use std::fmt::Write;

use corelane_cli::model::Sharing;

use super::answer::{Answer, At};
use super::text::{digits, time, whole};

pub(crate) fn render(answer: &Answer) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = replica(&mut out, answer);
    let _ = carried(&mut out, answer);
    if let Some(at) = &answer.at {
        let _ = fares(&mut out, answer, at);
    }
    let _ = scaled(&mut out, answer);
    out
}

fn replica(out: &mut String, answer: &Answer) -> std::fmt::Result {
    let replica = answer.model.replica();
    let lanes = if replica.lanes == 1 { "lane" } else { "lanes" };
    let shared = match replica.sharing {
        Sharing::Together => " with shared work",
        Sharing::Apart => "",
    };
    writeln!(
        out,
        "Replica: {} {lanes}{shared}, {} slots and a queue of {} per lane.",
        replica.lanes, replica.slots, replica.queue
    )?;
    writeln!(
        out,
        "Lane time per request outside the handler: {}, and {} if the lane must wake up.\n",
        time(replica.outside),
        time(replica.wake)
    )?;
    let kinds = answer.model.mix().kinds();
    let width = kinds.iter().map(|kind| kind.name.chars().count()).max().unwrap_or(0).max(4);
    writeln!(out, "  {:width$}  {:>7}  {:>20}  {:>20}", "kind", "share", "lane time", "wait")?;
    let spread = |mean, deviation| format!("{} ± {}", time(mean), time(deviation));
    for kind in kinds {
        let (lane, wait) = (kind.lane, kind.wait);
        writeln!(
            out,
            "  {:width$}  {:>6}%  {:>20}  {:>20}",
            kind.name,
            digits(kind.share * 100.0),
            spread(lane.mean(), lane.deviation()),
            spread(wait.mean(), wait.deviation())
        )?;
    }
    Ok(())
}

fn carried(out: &mut String, answer: &Answer) -> std::fmt::Result {
    let knee = answer.model.knee();
    writeln!(out, "\nMaximum: {} requests/s (limited by {}).", whole(knee.rate), answer.bound())?;
    let Some((target, plan)) = answer.target.zip(answer.plan) else { return Ok(()) };
    let quantile = format!("p{} within {}", trimmed(target.share), time(target.within));
    let Some(needed) = plan.needed else {
        return writeln!(out, "No load meets {quantile}, because requests alone take longer.");
    };
    let rate = whole(plan.carried);
    writeln!(out, "Maximum with {quantile}: {rate} requests/s (simulated).")?;
    let Some(load) = answer.load else { return Ok(()) };
    let (load, spare) = (whole(load), answer.spare);
    let replicas = if needed == 1 { "replica" } else { "replicas" };
    write!(out, "{load} requests/s need {needed} {replicas}")?;
    if spare > 0 {
        write!(out, ", or {} to survive the loss of {spare}", needed + spare)?;
    }
    writeln!(out, ".")
}

fn trimmed(share: f64) -> f64 {
    (share * 1e5).round() / 1e3
}

fn fares(out: &mut String, answer: &Answer, at: &At) -> std::fmt::Result {
    let knee = answer.model.knee().rate;
    let replicas = match at.replicas {
        1 => "One replica gets".to_owned(),
        many => format!("Each of {many} replicas gets"),
    };
    writeln!(
        out,
        "\n{replicas} {} requests/s, {}% of its maximum. The mean wait is {}.",
        whole(at.rate),
        digits(100.0 * at.rate / knee),
        time(at.estimated.wait)
    )?;
    let Some(simulated) = &at.simulated else {
        return writeln!(out, "This is overload: the wait grows as long as the load lasts.");
    };
    if simulated.shed > 0.0 {
        writeln!(out, "{}% of the requests are shed.", digits(100.0 * simulated.shed))?;
    }
    let kinds = answer.model.mix().kinds();
    let names = kinds.iter().map(|kind| kind.name.as_str());
    let rows: Vec<_> = std::iter::once(("all", None))
        .chain(names.enumerate().map(|(place, name)| (name, Some(place))))
        .collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    writeln!(
        out,
        "\n  {:width$}  {:>9}  {:>9}  {:>9}  {:>9}  {:>18}",
        "simulated", "mean", "p50", "p99", "p99.9", "p99 by formula"
    )?;
    for (name, place) in rows {
        writeln!(
            out,
            "  {name:width$}  {:>9}  {:>9}  {:>9}  {:>9}  {:>18}",
            time(simulated.mean(place)),
            time(simulated.quantile(place, 0.5)),
            time(simulated.quantile(place, 0.99)),
            time(simulated.quantile(place, 0.999)),
            time(at.estimated.quantile(place, 0.99))
        )?;
    }
    match at.met {
        Some(true) => writeln!(out, "\nThe target is met."),
        Some(false) => writeln!(out, "\nThe target is not met."),
        None => Ok(()),
    }
}

fn scaled(out: &mut String, answer: &Answer) -> std::fmt::Result {
    let Some(hpa) = answer.autoscaling else { return Ok(()) };
    writeln!(
        out,
        "\nAutoscaling: {} to {} replicas with lanes busy {}% of the time, at {} requests/s per replica. The load \
         can then grow by {}% before a new replica is ready. --hpa prints the chart's values.",
        hpa.min,
        hpa.max,
        digits(100.0 * hpa.busy),
        whole(hpa.rate),
        digits(100.0 * answer.growth)
    )
}
