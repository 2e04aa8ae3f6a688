//! The subcommands: one file each, with its arguments and its `run`.

mod archive;
mod audit;
mod backup;
mod check;
pub(crate) mod cli;
mod completions;
mod context;
mod control;
mod data_source;
mod diff;
mod echo;
mod explain;
mod fleet;
mod health;
mod history;
mod import;
mod init;
mod invoice;
mod journal;
mod jwt;
mod key;
mod lab;
mod limits;
mod login;
mod man;
mod monitor;
mod pool;
mod push;
mod reload;
mod repair;
mod resolve;
mod resubmit;
mod rollout;
mod routes;
mod schema;
mod serve;
mod server_args;
mod sinks;
mod token;
mod transactions;
mod types;
mod upgrade;
mod usage;

use crate::exit::Exit;
use clap::Subcommand;
use transactions::{search, show, tail};

/// Subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a first configuration
    Init(init::Args),
    /// Serve a configuration
    Serve(serve::Args),
    /// Reload the configuration of the running weir
    Reload(reload::Args),
    /// Replace the running weir by a new process without losing a request
    Upgrade(upgrade::Args),
    /// Check whether the running weir is ready
    Health(health::Args),
    /// Back up the data folder, while weir serves
    Backup(backup::Args),
    /// Restore a backup into a new data folder
    Restore(backup::RestoreArgs),
    /// Check a configuration and report all errors and warnings
    Check(check::Args),
    /// Compare a configuration with the one in force, or with another file
    Diff(diff::Args),
    /// List the configurations that were in force, and what each changed
    History(history::Args),
    /// List the routes of a configuration
    Routes(routes::Args),
    /// Explain how a request would be handled, without sending it
    Explain(explain::Args),
    /// Print the JSON Schema of the configuration
    Schema(schema::Args),
    /// Print TypeScript declarations for scripts
    Types(types::Args),
    /// Search recorded transactions
    Search(search::Args),
    /// Show a recorded transaction
    Show(show::Args),
    /// Print transactions as they complete
    Tail(tail::Args),
    /// Show rate limits and quotas of consumers, and the throttled ones
    Limits(limits::Args),
    /// Manage process pools
    #[command(subcommand)]
    Pool(pool::Command),
    /// Show and manage the nodes of a fleet
    #[command(subcommand)]
    Fleet(fleet::Command),
    /// Show sinks of transactions, rejected documents and gaps
    #[command(subcommand)]
    Sinks(sinks::Command),
    /// Push a version of the configuration to the fleet
    Push(push::Args),
    /// Roll out versions of the configuration
    #[command(subcommand)]
    Rollout(rollout::Command),
    /// Roll all nodes back to a version, or to the one before
    Rollback(rollout::RollbackArgs),
    /// Print invoices
    Invoice(invoice::Args),
    /// Print usage by consumer, API and operation
    Usage(usage::Args),
    /// Manage usage metering
    #[command(subcommand)]
    Monitor(monitor::Command),
    /// Resubmit (replay) recorded transactions
    Resubmit(resubmit::Args),
    /// Set the resolution of failed transactions
    Resolve(resolve::Args),
    /// Print the audit log
    Audit(audit::Args),
    /// Inspect and verify the journal
    #[command(subcommand)]
    Journal(journal::Command),
    /// Repair a data folder: move damaged files aside
    Repair(repair::Args),
    /// Create, list and revoke tokens of the admin API
    #[command(subcommand)]
    Token(token::Command),
    /// Sign in with an account of the identity provider
    Login(login::LoginArgs),
    /// Sign out, and revoke the token of `weir login`
    Logout(login::LogoutArgs),
    /// Manage contexts: named admin listeners that commands use
    #[command(subcommand)]
    Context(context::Command),
    /// Generate a configuration from an API description
    #[command(subcommand)]
    Import(import::Command),
    /// Load tests: the Lab
    #[command(subcommand)]
    Lab(lab::Command),
    /// Run the echo backend: an upstream for examples, tests and comparisons
    Echo(echo::Args),
    /// Create and inspect JSON Web Tokens, for development and tests
    #[command(subcommand)]
    Jwt(jwt::Command),
    /// Create API keys
    #[command(subcommand)]
    Key(key::Command),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Write the manual pages
    Man(man::Args),
}

/// Runs a command.
///
/// # Errors
/// The message has the reason.
pub(crate) fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Init(args) => init::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Reload(args) => reload::run(&args),
        Command::Upgrade(args) => upgrade::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => backup::run_restore(&args),
        Command::Check(args) => check::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::History(args) => history::run(&args).map(|()| Exit::Success),
        Command::Routes(args) => routes::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Schema(args) => schema::run(&args).map(Exit::from),
        Command::Types(args) => types::run(&args).map(Exit::from),
        Command::Search(args) => search::run(&args),
        Command::Show(args) => show::run(&args).map(Exit::from),
        Command::Tail(args) => tail::run(&args).map(Exit::from),
        Command::Limits(args) => limits::run(&args).map(Exit::from),
        Command::Pool(command) => pool::run(&command).map(Exit::from),
        Command::Fleet(command) => fleet::run(&command),
        Command::Sinks(command) => sinks::run(&command).map(Exit::from),
        Command::Push(args) => push::run(&args),
        Command::Rollout(command) => rollout::run(&command).map(Exit::from),
        Command::Rollback(args) => rollout::roll_back(&args).map(Exit::from),
        Command::Invoice(args) => invoice::run(&args),
        Command::Usage(args) => usage::run(&args).map(Exit::from),
        Command::Monitor(command) => monitor::run(&command).map(Exit::from),
        Command::Resubmit(args) => resubmit::run(&args),
        Command::Resolve(args) => resolve::run(&args),
        Command::Audit(args) => audit::run(&args).map(Exit::from),
        Command::Journal(command) => journal::run(&command),
        Command::Repair(args) => repair::run(&args).map(Exit::from),
        Command::Token(command) => token::run(&command).map(Exit::from),
        Command::Login(args) => login::login(&args).map(Exit::from),
        Command::Logout(args) => login::logout(&args).map(Exit::from),
        Command::Context(command) => context::run(&command).map(Exit::from),
        Command::Import(command) => import::run(&command),
        Command::Lab(command) => lab::run(&command),
        Command::Echo(args) => echo::run(&args),
        Command::Jwt(command) => jwt::run(command),
        Command::Key(command) => key::run(&command).map(Exit::from),
        Command::Completions(args) => completions::run(&args).map(Exit::from),
        Command::Man(args) => man::run(&args).map(Exit::from),
    }
}
