//! The subcommands: one file each, with its arguments and its `run`.

mod audit;
mod check;
mod completions;
mod echo;
mod explain;
mod import;
mod invoice;
mod journal;
mod jwt;
mod key;
mod lab;
mod limits;
mod monitor;
mod place;
mod pool;
mod repair;
mod resolve;
mod resubmit;
mod routes;
mod schema;
mod serve;
mod token;
mod transactions;
mod types;
mod usage;

use crate::exit::Exit;
use clap::Subcommand;
use transactions::{search, show, tail};

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a configuration
    Serve(serve::Args),
    /// Check a configuration and print everything that is wrong with it
    Check(check::Args),
    /// List the routes of a configuration
    Routes(routes::Args),
    /// Say what would be done with a request, and why; nothing is sent
    Explain(explain::Args),
    /// Print the JSON Schema of the configuration
    Schema(schema::Args),
    /// Print the type declarations of what scripts find
    Types(types::Args),
    /// Find recorded transactions
    Search(search::Args),
    /// Show a recorded transaction, whole
    Show(show::Args),
    /// Follow what is recorded
    Tail(tail::Args),
    /// Show who is throttled, and what is left to everybody
    Limits(limits::Args),
    /// Look after pools of agents
    #[command(subcommand)]
    Pool(pool::Command),
    /// Make invoices of what was counted
    Invoice(invoice::Args),
    /// Print usage: what was counted of whom
    Usage(usage::Args),
    /// Look after what was counted
    #[command(subcommand)]
    Monitor(monitor::Command),
    /// Send recorded transactions again
    Resubmit(resubmit::Args),
    /// Say what became of transactions that failed
    Resolve(resolve::Args),
    /// Print who looked at which payload, and who changed what
    Audit(audit::Args),
    /// Look at the journal itself
    #[command(subcommand)]
    Journal(journal::Command),
    /// Move damaged files of a data folder aside, so that weir starts again
    Repair(repair::Args),
    /// Make, list and revoke tokens of the admin API
    #[command(subcommand)]
    Token(token::Command),
    /// Write a first configuration from what describes an API
    #[command(subcommand)]
    Import(import::Command),
    /// Put load on servers and measure them: the Lab
    #[command(subcommand)]
    Lab(lab::Command),
    /// Run the echo backend: an upstream for examples, tests and comparisons
    Echo(echo::Args),
    /// Make and read JSON Web Tokens, for development and tests
    #[command(subcommand)]
    Jwt(jwt::Command),
    /// Make API keys
    #[command(subcommand)]
    Key(key::Command),
    /// Print a completion script for a shell
    Completions(completions::Args),
}

/// Runs a command.
///
/// # Errors
/// It could not be done; the message says why.
pub(crate) fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Routes(args) => routes::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Types(args) => types::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Tail(args) => tail::run(&args),
        Command::Limits(args) => limits::run(&args),
        Command::Pool(command) => pool::run(&command),
        Command::Invoice(args) => invoice::run(&args),
        Command::Usage(args) => usage::run(&args),
        Command::Monitor(command) => monitor::run(&command),
        Command::Resubmit(args) => resubmit::run(&args),
        Command::Resolve(args) => resolve::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Journal(command) => journal::run(&command),
        Command::Repair(args) => repair::run(&args),
        Command::Token(command) => token::run(&command),
        Command::Import(command) => import::run(&command),
        Command::Lab(command) => lab::run(&command),
        Command::Echo(args) => echo::run(&args),
        Command::Jwt(command) => jwt::run(command),
        Command::Key(command) => key::run(&command),
        Command::Completions(args) => completions::run(&args),
    }
}
