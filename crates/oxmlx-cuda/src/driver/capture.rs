//! Graphs: capturing a stream's launches, and launching them again with other words in the parameter block.

use super::check::check;
use super::{Arguments, Function, GraphHandle, NodeHandle};
use crate::record::Grid;
use cudarc::driver::sys;
use oxmlx_types::Result;
use std::ptr::{null, null_mut};

pub(super) fn begin(stream: sys::CUstream) -> Result<()> {
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream is valid, and whoever calls holds its lock.
    check(unsafe { sys::cuStreamBeginCapture_v2(stream, mode) }, "A capture can't be started")
}

/// The nodes on which the next launch would depend.
pub(super) fn captured(stream: sys::CUstream) -> Result<Vec<NodeHandle>> {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut nodes, mut edges, mut count) = (null(), null(), 0);
    // SAFETY: the stream is valid; the places are valid for writes; what comes back belongs to the stream and is
    // copied before anything else happens to it.
    unsafe {
        let outcome = sys::cuStreamGetCaptureInfo_v3(
            stream,
            &mut status,
            null_mut(),
            null_mut(),
            &mut nodes,
            &mut edges,
            &mut count,
        );
        check(outcome, "A capture can't be looked at")?;
        if nodes.is_null() || count == 0 {
            return Ok(Vec::new());
        }
        Ok(std::slice::from_raw_parts(nodes, count).iter().map(|n| NodeHandle(*n as usize)).collect())
    }
}

/// Lets the next launch depend on these nodes alone.
pub(super) fn after(stream: sys::CUstream, nodes: &[NodeHandle]) -> Result<()> {
    let mut all: Vec<sys::CUgraphNode> = nodes.iter().map(|n| n.0 as sys::CUgraphNode).collect();
    let set = sys::CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES as u32;
    // SAFETY: the stream captures, and the nodes are of its graph.
    let status = unsafe {
        sys::cuStreamUpdateCaptureDependencies_v2(stream, all.as_mut_ptr(), null(), all.len(), set)
    };
    check(status, "A capture's order can't be set")
}

/// Ends a capture that `begin` started; the graph's nodes that run `put` are its `puts`.
pub(super) fn end(stream: sys::CUstream, put: Function) -> Result<GraphHandle> {
    let mut graph = null_mut();
    // SAFETY: the stream is valid and captures; the place is valid for writes.
    check(unsafe { sys::cuStreamEndCapture(stream, &mut graph) }, "A capture failed")?;
    let instantiated = instantiate(graph, put);
    if instantiated.is_err() {
        // SAFETY: the graph was made above and nobody else has it.
        let _ = unsafe { sys::cuGraphDestroy(graph) };
    }
    instantiated
}

fn instantiate(graph: sys::CUgraph, put: Function) -> Result<GraphHandle> {
    let mut exec = null_mut();
    // SAFETY: the graph is valid; the vector is as long as the driver is told.
    unsafe {
        let puts = nodes_of(graph, put)?;
        check(sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0), "A graph can't be instantiated")?;
        Ok(GraphHandle { graph: graph as usize, exec: exec as usize, puts })
    }
}

/// # Safety
/// The graph is valid.
unsafe fn nodes_of(graph: sys::CUgraph, function: Function) -> Result<Vec<usize>> {
    let mut count = 0;
    // SAFETY: the caller's promise; the vector is as long as the driver is told.
    unsafe {
        check(sys::cuGraphGetNodes(graph, null_mut(), &mut count), "A graph can't be read")?;
        let mut nodes = vec![null_mut(); count];
        check(sys::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count), "A graph can't be read")?;
        let mut found = Vec::new();
        for node in nodes {
            let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            check(sys::cuGraphNodeGetType(node, &mut kind), "A graph's node can't be read")?;
            if kind != sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL {
                continue;
            }
            let mut params: sys::CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
            check(sys::cuGraphKernelNodeGetParams_v2(node, &mut params), "A graph's node can't be read")?;
            if params.func as usize == function.0 {
                found.push(node as usize);
            }
        }
        Ok(found)
    }
}

/// # Safety
/// The graph is alive, and the arguments are those of the function.
pub(super) unsafe fn set_arguments(
    graph: &GraphHandle,
    put: usize,
    function: Function,
    grid: &Grid,
    arguments: Arguments<'_>,
) -> Result<()> {
    let params = sys::CUDA_KERNEL_NODE_PARAMS {
        func: function.0 as sys::CUfunction,
        gridDimX: grid.blocks[0],
        gridDimY: grid.blocks[1],
        gridDimZ: grid.blocks[2],
        blockDimX: grid.threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: grid.shared,
        kernelParams: arguments.as_mut_ptr(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    };
    // SAFETY: the caller's promise; the driver copies the arguments.
    let status = unsafe {
        sys::cuGraphExecKernelNodeSetParams_v2(
            graph.exec as sys::CUgraphExec,
            graph.puts[put] as sys::CUgraphNode,
            &params,
        )
    };
    check(status, "A graph's parameters can't be set")
}

pub(super) fn destroy(graph: GraphHandle) {
    // SAFETY: both were made by `end` and are destroyed once; a run that is under way is finished first.
    unsafe {
        let _ = sys::cuGraphExecDestroy(graph.exec as sys::CUgraphExec);
        let _ = sys::cuGraphDestroy(graph.graph as sys::CUgraph);
    }
}
