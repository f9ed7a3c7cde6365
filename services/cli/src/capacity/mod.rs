//! `corelane capacity`: predicts how many requests a replica serves within a latency target and how
//! many replicas a load needs. The input is a mix description or measurements from a running
//! replica.

mod answer;
mod arguments;
mod autoscaling;
mod calibration;
mod source;
mod table;
mod text;

use std::process::ExitCode;

use clap::CommandFactory;
use corelane_service::{flags, process};

use self::answer::Answer;
pub(crate) use self::arguments::Question;
use self::arguments::{Form, Metric};

pub(crate) fn run(question: &Question) -> ExitCode {
    match question.validate().map_err(Failure::Usage).and_then(|()| capacity(question)) {
        Ok(met) if met || !question.check => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(Failure::Usage(message)) => flags::reject(crate::Arguments::command(), message),
        Err(Failure::NoAnswer(message)) => {
            process::report(crate::NAME, &message);
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug)]
enum Failure {
    Usage(String),
    NoAnswer(String),
}

fn capacity(question: &Question) -> Result<bool, Failure> {
    let model = calibration::model(question)?;
    let answer = Answer::new(question, model).map_err(|error| Failure::Usage(error.to_string()))?;
    let text = match question.form() {
        Form::Table => table::render(&answer),
        Form::Json => answer.json(),
        Form::Autoscaling(metric) => {
            let arguments: Vec<_> = std::env::args().skip(1).collect();
            let service = question.service.as_deref().filter(|_| metric == Metric::Required);
            autoscaling::render(&answer, service, &arguments).map_err(Failure::NoAnswer)?
        }
    };
    process::print(&text);
    Ok(answer.met())
}
