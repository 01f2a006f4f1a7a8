//! Every way through an entry point as one graph: each call is a copy of what it calls.
//!
//! A copy for each call lets an index be followed through parameters. Calls can double at every level, so the size of
//! the graph is bounded, and nothing here recurses.

use super::super::index::Index;
use super::super::parse::id_at;
use rspirv::dr::Operand;
use rspirv::spirv::Op;
use std::collections::HashMap;
use std::ops::Range;

/// More than published kernels have by far; beyond it nothing is proven.
const MAX_INSTRUCTIONS: usize = 1 << 17;
const MAX_NODES: usize = 1 << 14;
/// Edges looked at for dominators, which take one round for each kernel that a compiler made.
const MAX_STEPS: usize = 1 << 20;

/// One call of a function.
pub(super) struct Instance {
    pub(super) function: u32,
    /// The caller and the place of the call in the module; none for the entry point.
    pub(super) call: Option<(u32, usize)>,
    /// Where the caller goes on.
    after: Option<usize>,
}

/// How a node ends.
pub(super) enum End {
    Jump,
    /// By this condition to the first or the second of the successors.
    Branch(u32),
    /// To any of the successors.
    Any,
    /// With this value; to where the caller goes on, if there is a caller.
    Return(Option<u32>),
    /// Without anything after it.
    Stop,
}

/// Instructions that run one after the other, none of them a call.
pub(super) struct Node {
    pub(super) instance: u32,
    /// Their places in the module.
    pub(super) body: Range<usize>,
    pub(super) end: End,
    pub(super) successors: Vec<usize>,
    /// It begins with the result of this instance, whose call is at that place.
    pub(super) after: Option<(u32, usize)>,
    /// It is the first of its instance.
    pub(super) first: bool,
}

pub(super) struct Graph {
    pub(super) instances: Vec<Instance>,
    pub(super) nodes: Vec<Node>,
    /// Reachable nodes, each after its predecessors but for those of loops.
    pub(super) order: Vec<usize>,
    /// The place of a node in `order`; `usize::MAX` if it is not reached.
    pub(super) place: Vec<usize>,
    /// Reachable predecessors.
    pub(super) predecessors: Vec<Vec<usize>>,
    /// The nearest dominator.
    pub(super) dominator: Vec<usize>,
    /// When a walk of the dominator tree comes to a node and leaves it.
    visits: Vec<(usize, usize)>,
    /// The last node of each block.
    lasts: HashMap<(u32, u32), usize>,
}

impl Graph {
    pub(super) fn new(index: &Index<'_>, entry: u32) -> Option<Graph> {
        let mut graph = Graph {
            instances: vec![Instance { function: entry, call: None, after: None }],
            nodes: Vec::new(),
            order: Vec::new(),
            place: Vec::new(),
            predecessors: Vec::new(),
            dominator: Vec::new(),
            visits: Vec::new(),
            lasts: HashMap::new(),
        };
        graph.copy_functions(index)?;
        graph.arrange();
        graph.dominate()?;
        Some(graph)
    }

    /// The last node of the block with a label.
    pub(super) fn last(&self, instance: u32, label: u32) -> Option<usize> {
        self.lasts.get(&(instance, label)).copied()
    }

    /// Every way from the entry to `b` leads through `a`.
    pub(super) fn dominates(&self, a: usize, b: usize) -> bool {
        self.visits[a].0 <= self.visits[b].0 && self.visits[b].1 <= self.visits[a].1
    }

    fn copy_functions(&mut self, index: &Index<'_>) -> Option<()> {
        let mut firsts: HashMap<(u32, u32), usize> = HashMap::new();
        let mut entries: Vec<usize> = Vec::new();
        // Successors as labels or instances, until all nodes are there.
        enum To {
            Labels(Vec<u32>),
            Instance(u32),
        }
        let mut ends: Vec<To> = Vec::new();
        let mut left = MAX_INSTRUCTIONS;
        let mut at = 0;
        while at < self.instances.len() {
            let instance = at as u32;
            let body = index.functions.get(&self.instances[at].function)?.body.clone();
            left = left.checked_sub(body.len())?;
            entries.push(self.nodes.len());
            let mut open: Option<u32> = None;
            for place in body {
                let instruction = index.parsed.instructions.get(place)?;
                let start = |nodes: &mut Vec<Node>, begin: usize, after| {
                    let first = nodes.len() == entries[at];
                    let end = End::Stop;
                    nodes.push(Node { instance, body: begin..begin, end, successors: Vec::new(), after, first });
                };
                let labels =
                    |from: usize| -> Vec<u32> { (from..).map_while(|position| id_at(instruction, position)).collect() };
                let (end, to) = match instruction.class.opcode {
                    Op::Label => {
                        if open.is_some() || self.nodes.len() >= MAX_NODES {
                            return None;
                        }
                        let label = instruction.result_id?;
                        open = Some(label);
                        firsts.insert((instance, label), self.nodes.len());
                        self.lasts.insert((instance, label), self.nodes.len());
                        start(&mut self.nodes, place + 1, None);
                        continue;
                    }
                    Op::FunctionCall if open.is_some() => {
                        let child = self.instances.len() as u32;
                        let function = id_at(instruction, 0)?;
                        if self.nodes.len() >= MAX_NODES || !index.functions.contains_key(&function) {
                            return None;
                        }
                        self.nodes.last_mut()?.body.end = place;
                        ends.push(To::Instance(child));
                        self.nodes.last_mut()?.end = End::Jump;
                        let after = Some(self.nodes.len());
                        self.instances.push(Instance { function, call: Some((instance, place)), after });
                        self.lasts.insert((instance, open?), self.nodes.len());
                        start(&mut self.nodes, place + 1, Some((child, place)));
                        continue;
                    }
                    Op::Branch => (End::Jump, labels(0)),
                    Op::BranchConditional => {
                        (End::Branch(id_at(instruction, 0)?), vec![id_at(instruction, 1)?, id_at(instruction, 2)?])
                    }
                    Op::Switch => {
                        let targets = instruction.operands.iter().skip(1).filter_map(Operand::id_ref_any).collect();
                        (End::Any, targets)
                    }
                    Op::Return => (End::Return(None), Vec::new()),
                    Op::ReturnValue => (End::Return(id_at(instruction, 0)), Vec::new()),
                    Op::Kill
                    | Op::Unreachable
                    | Op::TerminateInvocation
                    | Op::IgnoreIntersectionKHR
                    | Op::TerminateRayKHR => (End::Stop, Vec::new()),
                    _ => continue,
                };
                open.take()?;
                let node = self.nodes.last_mut()?;
                node.body.end = place;
                node.end = end;
                ends.push(To::Labels(to));
            }
            if open.is_some() || self.nodes.len() == *entries.last()? {
                return None;
            }
            at += 1;
        }
        for (node, to) in self.nodes.iter_mut().zip(&ends) {
            match to {
                &To::Instance(child) => node.successors.push(*entries.get(child as usize)?),
                To::Labels(labels) => {
                    for &label in labels {
                        node.successors.push(*firsts.get(&(node.instance, label))?);
                    }
                }
            }
            if let End::Return(_) = node.end {
                node.successors.extend(self.instances.get(node.instance as usize)?.after);
            }
            if let End::Any = node.end {
                node.successors.sort_unstable();
                node.successors.dedup();
            }
        }
        Some(())
    }

    /// Orders the nodes that are reached.
    fn arrange(&mut self) {
        let count = self.nodes.len();
        let mut seen = vec![false; count];
        let mut open = vec![(0usize, 0usize)];
        seen[0] = true;
        while let Some((node, next)) = open.last_mut() {
            match self.nodes[*node].successors.get(*next) {
                Some(&successor) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[successor], true) {
                        open.push((successor, 0));
                    }
                }
                None => {
                    self.order.push(*node);
                    open.pop();
                }
            }
        }
        self.order.reverse();
        self.place = vec![usize::MAX; count];
        self.predecessors = vec![Vec::new(); count];
        for (place, &node) in self.order.iter().enumerate() {
            self.place[node] = place;
            for &successor in &self.nodes[node].successors {
                if self.predecessors[successor].last() != Some(&node) {
                    self.predecessors[successor].push(node);
                }
            }
        }
    }

    fn dominate(&mut self) -> Option<()> {
        let count = self.nodes.len();
        let mut steps = MAX_STEPS;
        self.dominator = vec![usize::MAX; count];
        self.dominator[0] = 0;
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for &node in self.order.iter().skip(1) {
                let mut nearest = usize::MAX;
                for &predecessor in &self.predecessors[node] {
                    if self.dominator[predecessor] == usize::MAX {
                        continue;
                    }
                    let mut other = predecessor;
                    if nearest == usize::MAX {
                        nearest = other;
                    }
                    while nearest != other {
                        steps = steps.checked_sub(1)?;
                        let later = if self.place[nearest] > self.place[other] { &mut nearest } else { &mut other };
                        *later = self.dominator[*later];
                    }
                    steps = steps.checked_sub(1)?;
                }
                changed |= std::mem::replace(&mut self.dominator[node], nearest) != nearest;
            }
        }
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); count];
        for &node in self.order.iter().skip(1) {
            children[self.dominator[node]].push(node);
        }
        self.visits = vec![(usize::MAX, 0); count];
        let (mut clock, mut open) = (1, vec![(0usize, 0usize)]);
        self.visits[0].0 = 0;
        while let Some((node, next)) = open.last_mut() {
            match children[*node].get(*next) {
                Some(&child) => {
                    *next += 1;
                    self.visits[child].0 = clock;
                    open.push((child, 0));
                }
                None => {
                    self.visits[*node].1 = clock;
                    open.pop();
                }
            }
            clock += 1;
        }
        Some(())
    }

    /// Hands over the nodes that are reached from the entry without passing through one that `ends` answers for: those
    /// that lead to each other together, and each after all it leads to.
    pub(super) fn backwards(
        &self,
        ends: &dyn Fn(usize) -> bool,
        visit: &mut dyn FnMut(&[usize]) -> Option<()>,
    ) -> Option<()> {
        let count = self.nodes.len();
        // Tarjan's strongly connected components.
        let mut number = vec![usize::MAX; count];
        let mut lowest = vec![usize::MAX; count];
        let mut waiting = vec![false; count];
        let mut stack = Vec::new();
        let mut open = vec![(0usize, 0usize)];
        let mut next_number = 0;
        while let Some(&mut (node, ref mut next)) = open.last_mut() {
            if *next == 0 {
                number[node] = next_number;
                lowest[node] = next_number;
                next_number += 1;
                stack.push(node);
                waiting[node] = true;
            }
            let successor = if ends(node) { None } else { self.nodes[node].successors.get(*next).copied() };
            *next += 1;
            match successor {
                Some(successor) if number[successor] == usize::MAX => open.push((successor, 0)),
                Some(successor) => {
                    if waiting[successor] {
                        lowest[node] = lowest[node].min(number[successor]);
                    }
                }
                None => {
                    open.pop();
                    if let Some(&(parent, _)) = open.last() {
                        lowest[parent] = lowest[parent].min(lowest[node]);
                    }
                    if lowest[node] == number[node] {
                        let from = stack.iter().rposition(|&other| other == node)?;
                        for &member in &stack[from..] {
                            waiting[member] = false;
                        }
                        visit(&stack[from..])?;
                        stack.truncate(from);
                    }
                }
            }
        }
        Some(())
    }
}
