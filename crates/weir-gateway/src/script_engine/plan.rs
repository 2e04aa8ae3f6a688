//! Placement of scripts, shared by all workers of a Config. Scripts are compiled when it is loaded,
//! so requests have no cold start.

use super::circuit_breaker::CircuitBreaker;
use super::slot::Thread;
use std::sync::Arc;
use weir_config::{BodyMap, Config, Handler, Script};
use weir_module::Program;
use weir_script::{Engine, EngineError};

/// The scripts of a Config.
#[derive(Debug)]
pub(crate) struct ScriptPlan {
    /// Scripts in the engines of all workers.
    pub(crate) programs: Vec<Arc<Program>>,
    /// Bytes of memory of an engine.
    pub(crate) memory: usize,
    /// Engines on separate threads.
    threads: Vec<Arc<Thread>>,
}

/// Placement of the scripts of a route, by [`Part`].
#[derive(Debug, Default)]
pub(crate) struct RouteScripts([Option<Place>; 3]);

/// A script of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Handler,
    RequestMap,
    ResponseMap,
}

/// Placement of a script of a route.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) placement: Placement,
    pub(crate) breaker: CircuitBreaker,
}

#[derive(Debug)]
pub(crate) enum Placement {
    /// In the worker's engine, with this number.
    Here(usize),
    /// On a separate thread.
    Thread(Arc<Thread>),
}

impl ScriptPlan {
    /// Compiles every script once, and starts threads for isolated ones. Unchanged engines of
    /// `before` continue. Returns the plan and the placements of each route, API after API.
    ///
    /// # Errors
    /// The memory limit of an engine is too small, or a thread cannot be started.
    pub(crate) fn new(
        config: &Config,
        before: Option<&Self>,
    ) -> Result<(Self, Vec<RouteScripts>), EngineError> {
        let memory = config.scripts.memory;
        let mut plan = Self { programs: Vec::new(), memory, threads: Vec::new() };
        let mut routes = Vec::new();
        for route in config.apis.iter().flat_map(|api| &api.routes) {
            let handler = match &route.handler {
                Handler::Script(script) => Some(&**script),
                _ => None,
            };
            let mut place = |script: Option<&Script>| {
                script.map(|script| plan.place_for(script, before)).transpose()
            };
            routes.push(RouteScripts([
                place(handler)?,
                place(mapping(route.request_map.as_ref()))?,
                place(mapping(route.response_map.as_ref()))?,
            ]));
        }
        let unchanged = before.is_some_and(|before| plan.same_programs(before));
        if !plan.programs.is_empty() && !unchanged {
            Engine::new(&plan.programs, plan.memory)?;
        }
        Ok((plan, routes))
    }

    /// Whether both plans can use the same engine.
    pub(crate) fn same_programs(&self, other: &Self) -> bool {
        self.programs == other.programs && self.memory == other.memory
    }

    fn place_for(&mut self, script: &Script, before: Option<&Self>) -> Result<Place, EngineError> {
        let placement = if script.isolated {
            let kept = before.and_then(|before| before.thread(&script.program, self.memory));
            let thread = match kept {
                Some(thread) => thread,
                None => Arc::new(Thread::start(&script.program, self.memory)?),
            };
            self.threads.push(Arc::clone(&thread));
            Placement::Thread(thread)
        } else {
            self.programs.push(Arc::clone(&script.program));
            Placement::Here(self.programs.len() - 1)
        };
        Ok(Place { placement, breaker: CircuitBreaker::default() })
    }

    fn thread(&self, program: &Program, memory: usize) -> Option<Arc<Thread>> {
        self.threads.iter().find(|thread| thread.runs(program, memory)).map(Arc::clone)
    }
}

impl RouteScripts {
    /// The placement of a script, if configured.
    pub(crate) fn place(&self, part: Part) -> Option<&Place> {
        self.0[part as usize].as_ref()
    }
}

/// The script of a transformation, if it is one.
fn mapping(map: Option<&BodyMap>) -> Option<&Script> {
    match map {
        Some(BodyMap::Script(script)) => Some(script),
        _ => None,
    }
}
