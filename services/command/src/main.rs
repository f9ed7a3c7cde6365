//! The command `corelane`.
//!
//! `corelane capacity` says how many requests a replica carries within a quantile, and how many
//! replicas a load needs: by what a mix is said to take, or by what a running replica has learnt.

mod answer;
mod arguments;
mod autoscaling;
mod calibration;
mod exposition;
mod fetch;
mod source;
mod table;
mod text;

use std::io::Write;
use std::process::ExitCode;

use clap::Command;

use crate::answer::Answer;
use crate::arguments::{Form, Question};

/// Environment variables with this prefix are settings of the command; there are none.
const PREFIX: &str = "CORELANE_CAPACITY_";

fn main() -> ExitCode {
    let mut command = Command::new("corelane")
        .about("What Corelane can tell without a server of its own")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(arguments::command());
    let matches = match corelane_cli::read(&command, PREFIX) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    let Some(("capacity", matches)) = matches.subcommand() else {
        return ExitCode::FAILURE; // there is no other
    };
    let question = match Question::read(matches) {
        Ok(question) => question,
        Err(words) => return refuse(&mut command, &words),
    };
    match capacity(&question) {
        Ok(met) if met || !question.check => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(Failure::Usage(words)) => refuse(&mut command, &words),
        Err(Failure::NoAnswer(words)) => {
            let _ = writeln!(std::io::stderr(), "corelane: {words}");
            ExitCode::FAILURE
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
enum Failure {
    /// What was asked is not allowed.
    Usage(String),
    /// The replica that was asked did not tell, or no settings do what was asked.
    NoAnswer(String),
}

/// Answers on standard output; whether the target is met.
fn capacity(question: &Question) -> Result<bool, Failure> {
    let model = calibration::model(question)?;
    let answer = Answer::new(question, model).map_err(|error| Failure::Usage(error.to_string()))?;
    let words = match question.form {
        Form::Table => table::render(&answer),
        Form::Json => answer.json(),
        Form::Autoscaling => {
            let arguments: Vec<_> = std::env::args().skip(1).collect();
            autoscaling::render(&answer, &arguments).map_err(Failure::NoAnswer)?
        }
    };
    // Not `print!`, which panics when nobody reads any more.
    let _ = std::io::stdout().write_all(words.as_bytes());
    Ok(answer.met())
}

fn refuse(command: &mut Command, words: &str) -> ExitCode {
    corelane_cli::refuse(command.error(clap::error::ErrorKind::ValueValidation, words))
}
