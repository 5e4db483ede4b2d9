//! The sunaba program: `serve` runs the server, everything else is a client of one.
//!
//! Only `serve`, and what is done while no server runs (`offline`), opens a data directory's database; every
//! other command speaks HTTP.
//!
//! Architecture invariant: the client half (`client`, `commands`, `render`) and the server half
//! (`serve`) meet only here and in what a server leaves in its data directory; `doctor` alone asks the
//! server half's providers, because it has to work without a server.

mod args;
mod client;
mod commands;
mod config;
mod demo;
mod failure;
mod offline;
mod output;
mod render;
mod serve;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::failure::{Failure, Outcome};

/// A server makes and drops many small things at a high rate, and on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let wants_json = cli.json;
    match start(cli) {
        Ok(code) => code,
        Err(failure) => {
            report(&failure, wants_json);
            ExitCode::from(failure.exit_code())
        }
    }
}

fn start(cli: Cli) -> Outcome {
    // Two TLS providers can be linked in; one has to be named before the first connection.
    let provider = rustls::crypto::ring::default_provider().install_default();
    provider.map_err(|_| Failure::other("a TLS provider was installed before main"))?;
    if let Command::Serve(args) = &cli.command
        && args.detach_session
    {
        nix::unistd::setsid()
            .map_err(|error| Failure::other(format!("cannot leave the session: {error}")))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(Box::pin(dispatch(cli)));
    // A thread that waits for a line of input must not hold up the end.
    runtime.shutdown_background();
    outcome
}

async fn dispatch(cli: Cli) -> Outcome {
    let context = commands::Context::new(cli.data, cli.json);
    match cli.command {
        Command::Serve(args) if args.stop => commands::shutdown::shutdown(&context).await,
        Command::Serve(args) => serve::run(&context.settings(&args.settings), context.json).await,
        Command::Run(args) => commands::run::run(&context, args).await,
        Command::Attach(args) => commands::attach::attach(&context, &args.sandbox.id, args.stdin).await,
        Command::Ps(args) => commands::ps::ps(&context, &args).await,
        Command::Status => commands::status::status(&context).await,
        Command::Node(command) => commands::status::node(&context, &command).await,
        Command::Show(args) => commands::show::show(&context, &args.id).await,
        Command::Logs(args) => commands::logs::logs(&context, &args).await,
        Command::Send(args) => commands::send::send(&context, &args.sandbox.id, &args.text).await,
        Command::Interrupt(args) => {
            commands::send::interrupt(&context, &args.sandbox.id, args.text.as_deref()).await
        }
        Command::Questions(args) => commands::questions::list(&context, &args).await,
        Command::Answer(args) => commands::questions::answer(&context, &args).await,
        Command::Stop(args) => commands::stop::stop(&context, &args).await,
        Command::Diff(args) => commands::diff::diff(&context, &args).await,
        Command::Fork(args) => commands::fork::fork(&context, &args).await,
        Command::Files(args) => commands::files::files(&context, &args).await,
        Command::Verify(args) => commands::verify::verify(&context, args.id.as_deref()).await,
        Command::Agent(args::AgentCommand::List) => commands::agent::list(&context).await,
        Command::Agent(args::AgentCommand::Test(args)) => {
            Box::pin(commands::agent::test(&context, &args)).await
        }
        Command::Token(args) => commands::token::token(&context, args.command).await,
        Command::Project(args) => commands::project::project(&context, args.command).await,
        Command::Doctor => Box::pin(commands::doctor::doctor(&context)).await,
        Command::Config(args) => commands::config::config(&context, &args),
        Command::Backup(args) => commands::backup::backup(&context, args).await,
        Command::Restore(args) => {
            let data_dir = config::data_dir(&context.settings(&args::SettingArgs::default()));
            Box::pin(offline::restore::restore(&data_dir, &args, context.json)).await
        }
        Command::Migrate(args) => {
            let data_dir = config::data_dir(&context.settings(&args::SettingArgs::default()));
            Box::pin(offline::migrate::migrate(&data_dir, &args, context.json)).await
        }
        Command::Demo(_) if context.names_data() || context.json => Err(Failure::usage(
            "demo keeps its server's data under --dir and answers people only; it takes neither --data nor --json",
        )),
        Command::Demo(args) => demo::demo(&args).await,
    }
}

fn report(failure: &Failure, wants_json: bool) {
    if wants_json {
        let code = match failure {
            Failure::Usage(_) => "usage",
            Failure::Unreachable(_) => "server_unreachable",
            Failure::Refused(problem) => problem.code.as_str(),
            Failure::Other(_) => "failed",
        };
        output::json(&serde_json::json!({ "error": { "code": code, "detail": failure.to_string() } }));
    }
    for line in failure.to_string().lines() {
        output::note(&format!("sunaba: {}", render::clean_line(line)));
    }
}
