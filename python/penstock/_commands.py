"""The commands as functions: options are keywords, with - as _.

Made by tools/python-commands from what `penstock help --json` says.
"""

from typing import List, Optional

from penstock._program import Answer, Count, File, Line, Number, Path, Several

__all__: List[str] = [
    "checkpoint_export",
    "checkpoint_hash",
    "checkpoint_ls",
    "checkpoint_reshard",
    "checkpoint_verify",
    "cluster_check",
    "cluster_list",
    "cluster_show",
    "export",
    "lint",
    "models",
    "partition",
    "plan",
    "plan_check",
    "plot",
    "predict",
    "probe_diff",
    "report",
    "ring_coordinate",
    "ring_draw",
    "ring_evict",
    "ring_key",
    "ring_show",
    "ring_status",
    "schedule_check",
    "schedule_compare",
    "schedule_convert",
    "schedule_draw",
    "schedule_list",
    "schedule_make",
    "schedule_search",
    "schedule_time",
    "schema",
    "simulate",
    "supervise",
    "sync_compare",
    "sync_list",
    "tokenize",
    "view",
]


def plan(
    model: Optional[Path] = None,
    cluster: Optional[Path] = None,
    *,
    seq_length: Optional[Count] = None,
    global_batch_size: Optional[Count] = None,
    tokens: Optional[Count] = None,
    target: Optional[str] = None,
    dtype: Optional[str] = None,
    memory_limit: Optional[Number] = None,
    profile: Optional[Path] = None,
    top: Optional[Count] = None,
    seconds: Optional[Number] = None,
    objective: Optional[str] = None,
    within: Optional[Number] = None,
    allow_stale: bool = False,
    clip_grad: Optional[Number] = None,
    allow_local: bool = False,
    explain: bool = False,
    html: Optional[Path] = None,
    from_megatron: Optional[str] = None,
    why: Optional[Several] = None,
    compare_targets: bool = False,
    recovery: Optional[str] = None,
    expert_tensor_parallel_size: Optional[Count] = None,
    etp: Optional[Count] = None,
    dispatcher: Optional[str] = None,
    moe_token_dispatcher_type: Optional[str] = None,
    moe_flex_dispatcher_backend: Optional[str] = None,
    overlap_moe_expert_parallel_comm: bool = False,
    delay_wgrad_compute: bool = False,
    drop_tokens: bool = False,
    moe_paged_stash: bool = False,
    fused_experts: bool = False,
    graphs: Optional[str] = None,
    cuda_graph_impl: Optional[str] = None,
    recompute_modules: Optional[Several] = None,
    offload_modules: Optional[Several] = None,
    cpu_offloading_num_layers: Optional[Count] = None,
    offload_blocks: Optional[Count] = None,
    optimizer_cpu_offload: bool = False,
    optimizer: Optional[str] = None,
    grad_reduce_in_bf16: bool = False,
    master_bytes: Optional[Count] = None,
    moment_bytes: Optional[Count] = None,
    fp8_param_gather: bool = False,
    fp8_dot_product_attention: bool = False,
    mtp_num_layers: Optional[Count] = None,
    failures: Optional[Number] = None,
    mtbf: Optional[Number] = None,
    checkpoint_interval: Optional[Number] = None,
    detect_sec: Optional[Number] = None,
    restart_sec: Optional[Number] = None,
    save_sec: Optional[Number] = None,
    reload_sec: Optional[Number] = None,
    storage_rate: Optional[Number] = None,
    pair_share: Optional[Number] = None,
    islands: Optional[Count] = None,
    sync_steps: Optional[Count] = None,
    spares: Optional[Count] = None,
    repair: Optional[Number] = None,
    stacks: Optional[Count] = None,
    seed: Optional[Count] = None,
    output: Optional[Path] = None,
) -> Answer:
    """Finds the fastest layouts of a training that fit into memory.

    seq_length: tokens per sequence, as 8k for 8192; up to 8192 when not given
    global_batch_size: sequences (or images) per step, over all devices; 4 Mi tokens when not
        given
    tokens: tokens of the whole run, as 15T: print its days
    target: program to run the plan: penstock, megatron, torchtitan or deepspeed; when not
        given, penstock on CPUs, deepspeed for images, else megatron
    dtype: number format of matrix products: f32, bf16, fp16, fp8, mxfp8 or nvfp4; when not
        given, f32 for penstock and image networks, bf16 for others
    memory_limit: device memory that a plan may use, including the prediction's margin, as
        70GiB; all of it when not given
    profile: times that `penstock profile` measured
    top: number of plans in the table; 10 when not given
    seconds: work after which the search returns its best plan so far, counted as seconds of a
        usual core; 0.5 when not given
    objective: value of a step to make small: time, energy, or cost, which is the cluster file's
        price, or devices x seconds; time when not given
    within: take the plan with the fewest devices whose time (or energy, or cost) is at most X%
        above the best
    allow_stale: also search asynchronous schedules, whose results differ from synchronous
        training
    clip_grad: gradient norm that the training must clip to: leaves out asynchronous schedules
        that cannot clip; 0 when not given: clip if the schedule can
    allow_local: also compare other ways to synchronise the replicas of the best plan, with
        their savings
    explain: explain the best plan: why its neighbours are worse, the limit of the step, and
        what would help
    html: write an HTML report here
    from_megatron: a Megatron-LM command line, from which to take the layout, and the model if
        --model is not given; @FILE reads it from a file; plan compares it with the best plan,
        option by option
    why: explain why the plans with these settings are not the best, as tp=8,pp=4; also vpp, cp,
        ep, dp, micro-batch, schedule, recompute, sharding
    compare_targets: print the best plan of each target
    recovery: with --failures: the way to recover by which plans are ordered: restart, holders
        or islands; restart when not given
    expert_tensor_parallel_size: devices that share the tensors of an expert; when not given, 1
        with ep for megatron, else as tp
    etp: the same
    dispatcher: how tokens reach their experts: alltoall, allgather, deepep (one copy per node)
        or hybridep (also NVLink over several nodes); alltoall when not given
    moe_token_dispatcher_type: the same in Megatron's words: alltoall, allgather or flex
    moe_flex_dispatcher_backend: backend of the flex dispatcher: deepep or hybridep; deepep when
        not given
    overlap_moe_expert_parallel_comm: send messages of experts while another micro-batch
        computes
    delay_wgrad_compute: fill the gaps of that overlap with weight gradients
    drop_tokens: drop tokens beyond an equal share for each expert
    moe_paged_stash: keep stored inputs of experts in pages
    fused_experts: compute all experts of a device in one kernel
    graphs: work that is launched as one piece: none, modules (attention, router, dense MLP) or
        full (the whole step); none when not given
    cuda_graph_impl: the same in Megatron's words: none, local, transformer_engine or
        full_iteration
    recompute_modules: modules that selective recomputation computes again, as
        moe_act,layernorm; also core_attn, mla_up_proj, mlp, moe, shared_experts; when not
        given, plan chooses them for megatron; else the target's usual ones
    offload_modules: modules whose inputs wait in the host's memory, from the same list
    cpu_offloading_num_layers: blocks whose activations wait in the host's memory; needs pp 1
    offload_blocks: the same
    optimizer_cpu_offload: keep and step the optimizer's state in the host's memory
    optimizer: adam, adam8 (moments in 8 bits), adafactor or muon; adam when not given
    grad_reduce_in_bf16: accumulate and sum gradients in 2 bytes
    master_bytes: bytes of a master weight: 2 or 4; those of the target when not given
    moment_bytes: bytes of both moments of a weight: 2 to 6 or 8; when not given, 8, or 2 with
        adam8
    fp8_param_gather: gather weights in the 8 bits of the products
    fp8_dot_product_attention: also compute attention in 8 bits
    mtp_num_layers: train N blocks that predict further tokens; none when not given
    failures: predict the goodput of a run that fails: llama3, meta, failures per device and
        day, as 0.0005, or the mean time between failures of the whole job, as 3h
    mtbf: mean time between failures of the whole job, as 3h; the same as --failures TIME
    checkpoint_interval: time between two checkpoints on disk, as 10min; the best one when not
        given
    detect_sec: seconds until a failure is noticed; 0.02 when not given, measured on one node
    restart_sec: seconds to start the processes again; 0.63 when not given, measured on one node
    save_sec: seconds for which a checkpoint stops the training; when not given, its bytes over
        --storage-rate of all nodes
    reload_sec: seconds to load a checkpoint from disk; when not given, what a node loads over
        --storage-rate
    storage_rate: bytes per second between a node and the storage; 1GB/s when not given
    pair_share: share of failures that take a node together with the one that holds its copy;
        35/419 when not given: switches and cables of llama3
    islands: islands that synchronise rarely; the best number when not given
    sync_steps: steps between two synchronisations of islands; 30 when not given
    spares: spare nodes; when not given, predict assumes that there is always one, and plan
        prints the best number
    repair: time after which an exchanged node is a spare again; 24h when not given
    stacks: also predict replication, and replica groups that hold up to N shards of the batch,
        so that the others compute those of a group that fails (SPARe); penstock train cannot
        run them
    seed: seed of the simulated failures; 1 when not given
    output: write the best plan to FILE; plan.svg: a picture
    """
    return Line("plan", locals()).answer()


def plan_check(
    plan: File,
    *,
    model: Optional[Path] = None,
    cluster: Optional[Path] = None,
    tokens: Optional[Count] = None,
    memory_limit: Optional[Number] = None,
    profile: Optional[Path] = None,
    output: Optional[Path] = None,
) -> Answer:
    """Predicts a plan again.

    model: config.json, its folder, or a preset, as gpt2
    cluster: a cluster file, or a preset, as 64xh100
    tokens: tokens of the whole run, as 15T: print its days
    memory_limit: device memory that a plan may use, including the prediction's margin, as
        70GiB; all of it when not given
    profile: times that `penstock profile` measured
    output: write the plan to FILE
    """
    return Line("plan check", locals(), "plan").answer()


def predict(
    model: Optional[Path] = None,
    cluster: Optional[Path] = None,
    *,
    seq_length: Optional[Count] = None,
    global_batch_size: Optional[Count] = None,
    tokens: Optional[Count] = None,
    target: Optional[str] = None,
    dtype: Optional[str] = None,
    memory_limit: Optional[Number] = None,
    profile: Optional[Path] = None,
    tensor_model_parallel_size: Optional[Count] = None,
    tp: Optional[Count] = None,
    pipeline_model_parallel_size: Optional[Count] = None,
    pp: Optional[Count] = None,
    num_virtual_stages_per_pipeline_rank: Optional[Count] = None,
    vpp: Optional[Count] = None,
    context_parallel_size: Optional[Count] = None,
    cp: Optional[Count] = None,
    expert_model_parallel_size: Optional[Count] = None,
    ep: Optional[Count] = None,
    dp: Optional[Count] = None,
    micro_batch_size: Optional[Count] = None,
    schedule: Optional[str] = None,
    recompute_granularity: Optional[str] = None,
    use_distributed_optimizer: bool = False,
    sharding: Optional[str] = None,
    sharding_group: Optional[Count] = None,
    sequence_parallel: bool = False,
    blocks: Optional[Several] = None,
    pipeline_model_parallel_layout: Optional[str] = None,
    from_megatron: Optional[str] = None,
    devices: Optional[Several] = None,
    peers: Optional[str] = None,
    lost_peers: Optional[Count] = None,
    peer_link: Optional[Number] = None,
    expert_tensor_parallel_size: Optional[Count] = None,
    etp: Optional[Count] = None,
    dispatcher: Optional[str] = None,
    moe_token_dispatcher_type: Optional[str] = None,
    moe_flex_dispatcher_backend: Optional[str] = None,
    overlap_moe_expert_parallel_comm: bool = False,
    delay_wgrad_compute: bool = False,
    drop_tokens: bool = False,
    moe_paged_stash: bool = False,
    fused_experts: bool = False,
    graphs: Optional[str] = None,
    cuda_graph_impl: Optional[str] = None,
    recompute_modules: Optional[Several] = None,
    offload_modules: Optional[Several] = None,
    cpu_offloading_num_layers: Optional[Count] = None,
    offload_blocks: Optional[Count] = None,
    optimizer_cpu_offload: bool = False,
    optimizer: Optional[str] = None,
    grad_reduce_in_bf16: bool = False,
    master_bytes: Optional[Count] = None,
    moment_bytes: Optional[Count] = None,
    fp8_param_gather: bool = False,
    fp8_dot_product_attention: bool = False,
    mtp_num_layers: Optional[Count] = None,
    failures: Optional[Number] = None,
    mtbf: Optional[Number] = None,
    checkpoint_interval: Optional[Number] = None,
    detect_sec: Optional[Number] = None,
    restart_sec: Optional[Number] = None,
    save_sec: Optional[Number] = None,
    reload_sec: Optional[Number] = None,
    storage_rate: Optional[Number] = None,
    pair_share: Optional[Number] = None,
    islands: Optional[Count] = None,
    sync_steps: Optional[Count] = None,
    spares: Optional[Count] = None,
    repair: Optional[Number] = None,
    stacks: Optional[Count] = None,
    seed: Optional[Count] = None,
    output: Optional[Path] = None,
) -> Answer:
    """Predicts time and memory of one layout of a training.

    seq_length: tokens per sequence, as 8k for 8192; up to 8192 when not given
    global_batch_size: sequences (or images) per step, over all devices; 4 Mi tokens when not
        given
    tokens: tokens of the whole run, as 15T: print its days
    target: program to run the plan: penstock, megatron, torchtitan or deepspeed; when not
        given, penstock on CPUs, deepspeed for images, else megatron
    dtype: number format of matrix products: f32, bf16, fp16, fp8, mxfp8 or nvfp4; when not
        given, f32 for penstock and image networks, bf16 for others
    memory_limit: device memory that a plan may use, including the prediction's margin, as
        70GiB; all of it when not given
    profile: times that `penstock profile` measured
    tensor_model_parallel_size: devices that share each tensor
    tp: the same
    pipeline_model_parallel_size: ranks of the pipeline
    pp: the same
    num_virtual_stages_per_pipeline_rank: stages on each pipeline rank
    vpp: the same
    context_parallel_size: devices that share each sequence
    cp: the same
    expert_model_parallel_size: replicas that share the experts
    ep: the same
    dp: replicas of the pipeline; as many as the devices allow when not given
    micro_batch_size: sequences per micro-batch; 1 when not given
    schedule: a name from `penstock schedule list`; when not given, 1f1b, or interleaved with
        several stages per rank
    recompute_granularity: none, selective or full; none when not given
    use_distributed_optimizer: the same as --sharding zero1
    sharding: over replicas: none, zero1, zero2 or zero3; when not given, the target's first
        after none
    sharding_group: with --sharding zero3, replicas that have all weights together, others have
        copies; all when not given
    sequence_parallel: also split norms over tp; when not given, as the target does it: penstock
        does not
    blocks: blocks of each stage, as 1,2,2,3; as even as possible when not given
    pipeline_model_parallel_layout: the same in Megatron's notation, as 'Et*2|(t*2|)*34,tL'
    from_megatron: a Megatron-LM command line, from which to take the layout, and the model if
        --model is not given; @FILE reads it from a file; plan compares it with the best plan,
        option by option
    devices: with --failures: numbers of devices, as 128,2048,16384; each has as many replicas
        as fit, and the batch grows with them; the plan's when not given
    peers: also predict the plan's stages on N peers whose speeds differ up to X times, as 6:3,
        where micro-batches choose their peers (SWARM); penstock train cannot run it
    lost_peers: with --peers: peers that are lost; none when not given
    peer_link: with --peers: the link of each; 200Mbit/s when not given
    expert_tensor_parallel_size: devices that share the tensors of an expert; when not given, 1
        with ep for megatron, else as tp
    etp: the same
    dispatcher: how tokens reach their experts: alltoall, allgather, deepep (one copy per node)
        or hybridep (also NVLink over several nodes); alltoall when not given
    moe_token_dispatcher_type: the same in Megatron's words: alltoall, allgather or flex
    moe_flex_dispatcher_backend: backend of the flex dispatcher: deepep or hybridep; deepep when
        not given
    overlap_moe_expert_parallel_comm: send messages of experts while another micro-batch
        computes
    delay_wgrad_compute: fill the gaps of that overlap with weight gradients
    drop_tokens: drop tokens beyond an equal share for each expert
    moe_paged_stash: keep stored inputs of experts in pages
    fused_experts: compute all experts of a device in one kernel
    graphs: work that is launched as one piece: none, modules (attention, router, dense MLP) or
        full (the whole step); none when not given
    cuda_graph_impl: the same in Megatron's words: none, local, transformer_engine or
        full_iteration
    recompute_modules: modules that selective recomputation computes again, as
        moe_act,layernorm; also core_attn, mla_up_proj, mlp, moe, shared_experts; when not
        given, plan chooses them for megatron; else the target's usual ones
    offload_modules: modules whose inputs wait in the host's memory, from the same list
    cpu_offloading_num_layers: blocks whose activations wait in the host's memory; needs pp 1
    offload_blocks: the same
    optimizer_cpu_offload: keep and step the optimizer's state in the host's memory
    optimizer: adam, adam8 (moments in 8 bits), adafactor or muon; adam when not given
    grad_reduce_in_bf16: accumulate and sum gradients in 2 bytes
    master_bytes: bytes of a master weight: 2 or 4; those of the target when not given
    moment_bytes: bytes of both moments of a weight: 2 to 6 or 8; when not given, 8, or 2 with
        adam8
    fp8_param_gather: gather weights in the 8 bits of the products
    fp8_dot_product_attention: also compute attention in 8 bits
    mtp_num_layers: train N blocks that predict further tokens; none when not given
    failures: predict the goodput of a run that fails: llama3, meta, failures per device and
        day, as 0.0005, or the mean time between failures of the whole job, as 3h
    mtbf: mean time between failures of the whole job, as 3h; the same as --failures TIME
    checkpoint_interval: time between two checkpoints on disk, as 10min; the best one when not
        given
    detect_sec: seconds until a failure is noticed; 0.02 when not given, measured on one node
    restart_sec: seconds to start the processes again; 0.63 when not given, measured on one node
    save_sec: seconds for which a checkpoint stops the training; when not given, its bytes over
        --storage-rate of all nodes
    reload_sec: seconds to load a checkpoint from disk; when not given, what a node loads over
        --storage-rate
    storage_rate: bytes per second between a node and the storage; 1GB/s when not given
    pair_share: share of failures that take a node together with the one that holds its copy;
        35/419 when not given: switches and cables of llama3
    islands: islands that synchronise rarely; the best number when not given
    sync_steps: steps between two synchronisations of islands; 30 when not given
    spares: spare nodes; when not given, predict assumes that there is always one, and plan
        prints the best number
    repair: time after which an exchanged node is a spare again; 24h when not given
    stacks: also predict replication, and replica groups that hold up to N shards of the batch,
        so that the others compute those of a group that fails (SPARe); penstock train cannot
        run them
    seed: seed of the simulated failures; 1 when not given
    output: write the plan to FILE; goodput.svg: a picture
    """
    return Line("predict", locals()).answer()


def simulate(
    *,
    plan: Optional[Path] = None,
    cluster: Optional[Path] = None,
    model: Optional[Path] = None,
    profile: Optional[Path] = None,
    costs: Optional[Several] = None,
    steps: Optional[Count] = None,
    trace: Optional[Path] = None,
    slow_rank: Optional[str] = None,
    slow_link: Optional[str] = None,
    fail: Optional[str] = None,
    background: Optional[str] = None,
    jitter: Optional[Number] = None,
    seed: Optional[Count] = None,
    mapping: Optional[str] = None,
    use_tp_pp_dp_mapping: bool = False,
    topology: Optional[str] = None,
    no_contention: bool = False,
    sweep: Optional[str] = None,
    plot: Optional[Path] = None,
) -> Answer:
    """Runs a plan on simulated ranks: the trainer itself, on a simulated network, with operations
    of the predicted duration.

    plan: plan to run, a file that `penstock plan -o` wrote
    cluster: a cluster file, or preset:KIND*COUNT; the plan's cluster when not given
    model: config.json, a folder with one, or preset:NAME; the plan's model when not given
    profile: times that `penstock profile` measured, for a plan with target penstock
    costs: seconds of forwards and backwards, from a cost file or as f=1,i=1,w=1, in place of
        the planner's
    steps: steps to run; 2 when not given; with more than one step, averages leave out the first
    trace: record every operation in DIR, for penstock view
    slow_rank: operations of RANK take FACTOR times as long; may be repeated, as the next three
        options
    slow_link: a link, as rank-17.network, or all links of a rank, as rank-17, have 1 / FACTOR
        of their bandwidth
    fail: a rank, as rank-3, or a link fails at second SEC
    background: background traffic from rank A to rank B: messages of BYTES, one after another
    jitter: random variation of each operation, one standard deviation, as 5% or 0.05
    seed: seed of the jitter and of --mapping random; 1 when not given
    mapping: order of ranks on devices, innermost first: tp-cp-dp-pp, tp-cp-pp-dp or random;
        tp-cp-dp-pp when not given
    use_tp_pp_dp_mapping: the same as --mapping tp-cp-pp-dp
    topology: network between nodes: levels (as in the cluster file), torus:8x8x8,
        fat-tree:2;8,16;1,8;1,1 or dragonfly:...; levels when not given
    no_contention: messages do not slow each other down, as the planner assumes; compare with a
        run without this option for the cost of shared links
    sweep: one run for each strength of a disturbance: slow-rank=17@1:3:0.25,
        slow-link=rank-17@1:8:1 or jitter=0:0.2:0.05; rank 0 when none is named
    plot: draw the sweep: .svg, .png or .pdf
    """
    return Line("simulate", locals()).answer()


def schedule_list() -> Answer:
    """Lists all published schedules."""
    return Line("schedule list", locals()).answer()


def schedule_make(
    name: str,
    *,
    stages: Optional[Count] = None,
    microbatches: Optional[Count] = None,
    chunks: Optional[Count] = None,
    slices: Optional[Count] = None,
    batches: Optional[Count] = None,
    group_size: Optional[Count] = None,
    stage_replicas: Optional[Several] = None,
    vertical_sync: bool = False,
    recompute: bool = False,
    costs: Optional[Several] = None,
    memory: Optional[Several] = None,
    memory_limit: Optional[Number] = None,
    output: Optional[Path] = None,
) -> str:
    """Makes a published schedule by its name.

    stages: ranks of the pipeline
    microbatches: micro-batches per step (asynchronous: per batch)
    chunks: stages on each rank
    slices: token slices per micro-batch
    batches: batches of a run, for asynchronous schedules only; 8 in compare when not given
    group_size: micro-batches that run together; for kfkb only
    stage_replicas: ranks of each stage, which take micro-batches in turn; their sum is
        --stages, which may be left out; for 1f1b only
    vertical_sync: the same weight version in all stages of a micro-batch; for pipedream only
    recompute: recompute each stage (R) ahead of its backward; its forward keeps only its input
    costs: seconds of one micro-batch on one rank, or a JSON file; b=2 is a whole backward, i
        and w half of it each; f=1,i=1,w=1,comm=0 when not given
    memory: activations that operations add and free, in A, the activations of one micro-batch
        on one rank; f=1,i=0,w=-1 when not given
    memory_limit: maximum of activations on a rank, in A; in search, when not given, that of
        1f1b: as many as there are stages
    output: write to FILE; to the terminal when not given
    """
    return Line("schedule make", locals(), "name").output()


def schedule_search(
    *,
    stages: Optional[Count] = None,
    microbatches: Optional[Count] = None,
    chunks: Optional[Count] = None,
    placement: Optional[str] = None,
    costs: Optional[Several] = None,
    memory: Optional[Several] = None,
    memory_limit: Optional[Number] = None,
    seconds: Optional[Number] = None,
    seed: Optional[Count] = None,
    output: Optional[Path] = None,
) -> Answer:
    """Searches a schedule for given costs and a memory limit.

    stages: ranks of the pipeline
    microbatches: micro-batches per step (asynchronous: per batch)
    chunks: stages on each rank
    placement: placement of stages on ranks: linear, loop, v or any, the best of all; any when
        not given
    costs: seconds of one micro-batch on one rank, or a JSON file; b=2 is a whole backward, i
        and w half of it each; f=1,i=1,w=1,comm=0 when not given
    memory: activations that operations add and free, in A, the activations of one micro-batch
        on one rank; f=1,i=0,w=-1 when not given
    memory_limit: maximum of activations on a rank, in A; in search, when not given, that of
        1f1b: as many as there are stages
    seconds: stop the search after S seconds; when its work is done when not given
    seed: seed of the random numbers; 1 when not given
    output: write to FILE; to the terminal when not given
    """
    return Line("schedule search", locals()).answer()


def schedule_check(
    file: File,
    *,
    memory: Optional[Several] = None,
    memory_limit: Optional[Number] = None,
    send_window: Optional[Count] = None,
) -> Answer:
    """Verifies order, completeness, deadlocks and memory.

    memory: activations that operations add and free, in A, the activations of one micro-batch
        on one rank; f=1,i=0,w=-1 when not given
    memory_limit: maximum of activations on a rank, in A; in search, when not given, that of
        1f1b: as many as there are stages
    send_window: sends of a channel that may be in flight; the schedule's own window (at least
        2) when not given
    """
    return Line("schedule check", locals(), "file").answer()


def schedule_time(
    file: File,
    *,
    costs: Optional[Several] = None,
    memory: Optional[Several] = None,
    send_window: Optional[Count] = None,
    all_ranks: bool = False,
) -> Answer:
    """Prints time, waiting and memory of a schedule.

    costs: seconds of one micro-batch on one rank, or a JSON file; b=2 is a whole backward, i
        and w half of it each; f=1,i=1,w=1,comm=0 when not given
    memory: activations that operations add and free, in A, the activations of one micro-batch
        on one rank; f=1,i=0,w=-1 when not given
    send_window: sends of a channel that may be in flight; the schedule's own window (at least
        2) when not given
    all_ranks: print a line for every rank, also of a long pipeline
    """
    return Line("schedule time", locals(), "file").answer()


def schedule_draw(
    *schedules: Path,
    stages: Optional[Count] = None,
    microbatches: Optional[Count] = None,
    chunks: Optional[Count] = None,
    slices: Optional[Count] = None,
    batches: Optional[Count] = None,
    stage_replicas: Optional[Several] = None,
    recompute: bool = False,
    costs: Optional[Several] = None,
    memory: Optional[Several] = None,
    memory_limit: Optional[Number] = None,
    send_window: Optional[Count] = None,
    output: Optional[Path] = None,
) -> str:
    """Draws schedules over one time axis.

    stages: ranks of the pipeline
    microbatches: micro-batches per step (asynchronous: per batch)
    chunks: stages on each rank
    slices: token slices per micro-batch
    batches: batches of a run, for asynchronous schedules only; 8 in compare when not given
    stage_replicas: ranks of each stage, which take micro-batches in turn; their sum is
        --stages, which may be left out; for 1f1b only
    recompute: recompute each stage (R) ahead of its backward; its forward keeps only its input
    costs: seconds of one micro-batch on one rank, or a JSON file; b=2 is a whole backward, i
        and w half of it each; f=1,i=1,w=1,comm=0 when not given
    memory: activations that operations add and free, in A, the activations of one micro-batch
        on one rank; f=1,i=0,w=-1 when not given
    memory_limit: maximum of activations on a rank, in A; in search, when not given, that of
        1f1b: as many as there are stages
    send_window: sends of a channel that may be in flight; the schedule's own window (at least
        2) when not given
    output: write to FILE; to the terminal when not given
    """
    return Line("schedule draw", locals(), "schedules").output()


def schedule_compare(
    *names: str,
    stages: Optional[Count] = None,
    microbatches: Optional[Count] = None,
    chunks: Optional[Count] = None,
    slices: Optional[Count] = None,
    batches: Optional[Count] = None,
    recompute: bool = False,
    costs: Optional[Several] = None,
    memory: Optional[Several] = None,
    memory_limit: Optional[Number] = None,
) -> Answer:
    """Compares all schedules, or the named ones, best first.

    stages: ranks of the pipeline
    microbatches: micro-batches per step (asynchronous: per batch)
    chunks: stages on each rank
    slices: token slices per micro-batch
    batches: batches of a run, for asynchronous schedules only; 8 in compare when not given
    recompute: recompute each stage (R) ahead of its backward; its forward keeps only its input
    costs: seconds of one micro-batch on one rank, or a JSON file; b=2 is a whole backward, i
        and w half of it each; f=1,i=1,w=1,comm=0 when not given
    memory: activations that operations add and free, in A, the activations of one micro-batch
        on one rank; f=1,i=0,w=-1 when not given
    memory_limit: maximum of activations on a rank, in A; in search, when not given, that of
        1f1b: as many as there are stages
    """
    return Line("schedule compare", locals(), "names").answer()


def schedule_convert(
    source: Path,
    target: Path,
    *,
    force: bool = False,
) -> str:
    """Converts between the text form and PyTorch's CSV.

    force: write a schedule that `penstock schedule check` refuses
    """
    return Line("schedule convert", locals(), "source", "target").output()


def tokenize(
    *texts: Path,
    tokenizer: Optional[Path] = None,
    output: Optional[Path] = None,
    format: Optional[str] = None,
    append_eod: bool = False,
    lines: bool = False,
    json_key: Optional[str] = None,
    threads: Optional[Count] = None,
    train_chars: bool = False,
) -> Answer:
    """Turns text into a file of tokens that trainers read.

    tokenizer: tokenizer.json, a SentencePiece model, or a folder with one
    output: write PREFIX_text_document.bin and .idx (megatron) or PREFIX.bin
    format: megatron, llmc or nanogpt; megatron when not given
    append_eod: write the end-of-document token after each document
    lines: treat each line as a document, not each file
    json_key: treat each line as a JSON object with a document's text under KEY
    threads: encoding threads; one per processor when not given
    train_chars: write no tokens; make the folder -o with a tokenizer.json of the characters in
        all TEXTs
    """
    return Line("tokenize", locals(), "texts").answer()


def supervise(
    *,
    events: Optional[Path] = None,
    max_restarts: Optional[Count] = None,
    window: Optional[Number] = None,
    nodes_from: Optional[str] = None,
    nodes_interval: Optional[Number] = None,
    plans: Optional[Several] = None,
) -> str:
    """Runs COMMAND, a launcher with penstock train, and starts it again when a rank or the
    launcher dies, is stopped or hangs.

    events: append one JSON line per event to FILE; supervise.jsonl in the folder of COMMAND's
        --save when not given
    max_restarts: give up after N restarts within --window; 20 when not given
    window: seconds in which restarts are counted; 3600 when not given
    nodes_from: run PROGRAM with sh -c before each launch and every --nodes-interval; it prints
        lines HOST SLOTS, and launches follow them: in COMMAND, {ranks} and {hosts} (a:2,b:2)
        are filled in
    nodes_interval: seconds between two runs of PROGRAM; 5 when not given
    plans: plans for several numbers of ranks: {plan} in COMMAND is the one with the most ranks
        that has enough slots, and {ranks} its number
    """
    return Line("supervise", locals()).output()


def plot(
    *runs: Path,
    output: Optional[Path] = None,
    x: Optional[str] = None,
    smooth: Optional[Count] = None,
    log_y: bool = False,
    title: Optional[str] = None,
) -> str:
    """Draws loss and speed of one or several trainings.

    output: draw to FILE: .svg, .png or .pdf; to the terminal when not given
    x: horizontal axis: step, tokens or time; step when not given
    smooth: draw means over N steps, with the logged values in the background
    log_y: a logarithmic axis for the loss
    title: title of the plot; the model's name when not given
    """
    return Line("plot", locals(), "runs").output()


def view(
    dir: Path,
    *,
    output: Optional[Path] = None,
    step: Optional[Count] = None,
    ranks: Optional[str] = None,
    all_ranks: bool = False,
) -> Answer:
    """Shows one step of a traced training and its prediction, where they differ and why; or what
    is predicted of a plan; or the fault of a hang and the rank that others waited for, in
    records of another program.

    output: draw to FILE: .svg, .png, .pdf, or .json for Perfetto
    step: the step to show; the step of median duration when not given
    ranks: draw these ranks, one narrow row each, with waiting in colour
    all_ranks: print a line for every rank, also of a long pipeline
    """
    return Line("view", locals(), "dir").answer()


def report(
    *runs: Path,
    output: Optional[Path] = None,
) -> Answer:
    """Reports results, time and memory of trainings, and recommends changes; compares several
    runs.

    output: write an HTML page to FILE; print the figures on the terminal when not given
    """
    return Line("report", locals(), "runs").answer()


def checkpoint_ls(
    dir: Path,
) -> Answer:
    """Lists the steps that a run has saved."""
    return Line("checkpoint ls", locals(), "dir").answer()


def checkpoint_verify(
    *folders: Path,
) -> Answer:
    """Reads every byte and names each damaged file."""
    return Line("checkpoint verify", locals(), "folders").answer()


def checkpoint_hash(
    *folders: Path,
    weights: bool = False,
) -> Answer:
    """Prints one SHA-256 of weights and optimizer state.

    weights: weights only, not the optimizer's state
    """
    return Line("checkpoint hash", locals(), "folders").answer()


def checkpoint_reshard(
    dir: Path,
    *,
    output: Optional[Path] = None,
    max_shard_size: Optional[Number] = None,
) -> str:
    """Writes a step with other shards.

    output: write the step to this run folder
    max_shard_size: largest size of a file, as 200MB or 2GiB, 0: no limit; 5GB when not given
    """
    return Line("checkpoint reshard", locals(), "dir").output()


def checkpoint_export(
    dir: Path,
    *,
    dtype: Optional[str] = None,
    output: Optional[Path] = None,
    max_shard_size: Optional[Number] = None,
) -> str:
    """Writes weights, configuration and tokenizer.

    dtype: f32 or bf16; f32 when not given
    output: write to this folder, which must not exist yet
    max_shard_size: largest size of a file, as 200MB or 2GiB, 0: no limit; 5GB when not given
    """
    return Line("checkpoint export", locals(), "dir").output()


def models() -> Answer:
    """Lists the model presets, with their sizes."""
    return Line("models", locals()).answer()


def cluster_list() -> Answer:
    """Lists the presets of devices and systems."""
    return Line("cluster list", locals()).answer()


def cluster_show(
    source: Path,
) -> Answer:
    """Prints a cluster as a cluster file."""
    return Line("cluster show", locals(), "source").answer()


def cluster_check(
    source: Path,
) -> Answer:
    """Checks a cluster file and names the place of an error."""
    return Line("cluster check", locals(), "source").answer()


def partition(
    file: File,
    *,
    devices: Optional[Several] = None,
    bandwidth: Optional[Several] = None,
    flops: Optional[Number] = None,
    memory_limit: Optional[Number] = None,
    straight: bool = False,
    no_transfers: bool = False,
) -> Answer:
    """Cuts a network from a PipeDream, dnn-partitioning or Piper file into stages so that the
    slowest stage is as fast as possible; or cuts each layer among all devices so that a step is
    as fast as possible (PaSE).

    devices: number of devices, in place of the file's; for a PipeDream profile, which has none:
        devices of each network level, innermost first
    bandwidth: bytes per second of each network level, or rates with a unit, as 10Gbit/s; for a
        PipeDream profile, and one number in place of the file's for a file of layers
    flops: operations per second of a device, as 10TFLOP/s, in place of the file's; for a file
        of layers
    memory_limit: memory of a device, in bytes or with a unit, as 16GiB
    straight: replicate no stage; for a PipeDream profile
    no_transfers: count no time for activations between stages, as PipeDream's program does
        without a compression ratio
    """
    return Line("partition", locals(), "file").answer()


def export(
    plan: File,
    *,
    to: Optional[str] = None,
    output: Optional[Path] = None,
    model: Optional[Path] = None,
    cluster: Optional[Path] = None,
) -> Answer:
    """Writes a plan as files that another program reads.

    to: program to write for: megatron, torchtitan (also torchtitan@0.2.2), deepspeed, nanotron
        or sbatch; all: every one that can express the plan; the target of the plan when not
        given
    output: folder to write to; created if it does not exist
    model: config.json or its folder, for a plan that does not contain its model
    cluster: a cluster file, or preset:KIND*COUNT, to predict the exported layout where it
        differs from the plan
    """
    return Line("export", locals(), "plan").answer()


def lint(
    *files: Path,
    world_size: Optional[Count] = None,
    cluster: Optional[Path] = None,
    fix: bool = False,
    rules: bool = False,
    sarif: bool = False,
) -> Answer:
    """Finds faults in files that start a training with another program: scripts of Megatron-LM,
    Megatron-Bridge and torchtitan, DeepSpeed JSON, torchtitan TOML, YAML of Megatron,
    accelerate and nanotron.

    world_size: number of ranks, where a file does not say it
    cluster: a cluster file, or KIND*COUNT: predict memory and time of options of Megatron-LM
        there
    fix: write the sure fixes into the files, and print them as a diff
    rules: print the rules and end
    sarif: print SARIF 2.1.0
    """
    return Line("lint", locals(), "files").answer()


def sync_list() -> Answer:
    """Lists methods and compressors."""
    return Line("sync list", locals()).answer()


def sync_compare(
    *methods: str,
    model: Optional[Path] = None,
    link: Optional[Number] = None,
    latency: Optional[Number] = None,
    replicas: Optional[Count] = None,
    step_time: Optional[Number] = None,
    microbatches: Optional[Count] = None,
    profile: Optional[Path] = None,
    cluster: Optional[Path] = None,
    seq_length: Optional[Count] = None,
    global_batch_size: Optional[Count] = None,
    optimizer: Optional[str] = None,
    sync_interval: Optional[Count] = None,
    compress: Optional[str] = None,
    encode_rate: Optional[Number] = None,
    factors: Optional[Path] = None,
    mtbf: Optional[Number] = None,
    islands: Optional[Count] = None,
    restart_sec: Optional[Number] = None,
) -> Answer:
    """Prints the cost of each method on a link, and advises.

    model: config.json, a folder with one, or preset:NAME
    link: bandwidth of a replica's link, as 100Mbit/s
    latency: latency of a message, as 20ms; 0.1 ms when not given
    replicas: number of replicas
    step_time: compute time of a step in one replica, without synchronisation, as 2.5s
    microbatches: with --step-time: micro-batches per step in each replica; 1 when not given
    profile: instead of --step-time: times that `penstock profile` measured
    cluster: instead of --step-time: the devices of one replica, as a file or preset:KIND*COUNT;
        the best plan for them gives the time
    seq_length: with --cluster: tokens per sequence
    global_batch_size: samples per step over all replicas; one micro-batch each when not given
    optimizer: adam or sgd, because some methods also send moments; adam when not given
    sync_interval: steps between synchronisations, for methods with an interval; as in sync list
        when not given
    compress: a compressor, all or none, for every method that takes one; when not given, all
        compressors with allreduce
    encode_rate: bytes of gradients that a replica encodes per second; when not given, what the
        memory of the cluster's devices allows, or 2GB/s of one core
    factors: file with lines METHOD FACTOR: steps to reach a loss, relative to allreduce
    mtbf: mean time between failures of all replicas together, as 3h: orders methods by the
        steps that stay
    islands: with --mtbf: islands of replicas, which fail one by one, for methods that run
        between islands; as many as the replicas divide into when not given
    restart_sec: with --mtbf: seconds to start the processes again; 0.63 when not given,
        measured on one node
    """
    return Line("sync compare", locals(), "methods").answer()


def probe_diff(
    a: Path,
    b: Path,
    *,
    tolerance: Optional[Number] = None,
    output: Optional[Path] = None,
) -> Answer:
    """Finds the first layer in which two trainings differ.

    tolerance: largest relative difference that counts as equal; 0: only bit-identical numbers
        do; 1e-4 when not given
    output: picture of the differences along the layers: .svg, .png or .pdf
    """
    return Line("probe diff", locals(), "a", "b").answer()


def ring_draw(
    seed: Path,
    *,
    output: Optional[Path] = None,
    begin: Optional[Number] = None,
    end: Optional[Number] = None,
) -> str:
    """Draws a simulated run of islands with faults.

    output: picture that ends in .svg, .png or .pdf
    begin: second of the run at which the picture begins
    end: second at which it ends; the end of the run when not given
    """
    return Line("ring draw", locals(), "seed").output()


def ring_show(
    store: Path,
) -> Answer:
    """Prints what the islands of a ring agreed on."""
    return Line("ring show", locals(), "store").answer()


def ring_key(
    file: File,
    *,
    address: Optional[str] = None,
) -> str:
    """Makes the key of a node.

    address: where this node will listen, for the other nodes
    """
    return Line("ring key", locals(), "file").output()


def ring_coordinate(
    *,
    listen: Optional[str] = None,
    key: Optional[Path] = None,
    keys: Optional[str] = None,
    quorum: Optional[Count] = None,
    patience: Optional[Number] = None,
    store: Optional[str] = None,
    replay: Optional[Path] = None,
) -> str:
    """Coordinates islands over a network.

    listen: address that islands connect to
    key: private key of this node, made by penstock ring key
    keys: public keys of all nodes: island-N.pub, coordinator-N.pub, operator-NAME.pub
    quorum: islands that must contribute to a round, at least
    patience: time after which a silent node counts as gone, for example 30s; all other times
        derive from it
    store: where the record is kept: journal:FILE or etcd://HOST:PORT[,HOST:PORT...]/NAME
    replay: journal of another run: its rounds are committed again with the same contributors,
        and must give the same states
    """
    return Line("ring coordinate", locals()).output()


def ring_status(
    address: str,
    *,
    key: Optional[Path] = None,
    keys: Optional[str] = None,
) -> Answer:
    """Asks a coordinator for its state.

    key: private key of this node, made by penstock ring key
    keys: public keys of all nodes: island-N.pub, coordinator-N.pub, operator-NAME.pub
    """
    return Line("ring status", locals(), "address").answer()


def ring_evict(
    address: str,
    island: Count,
    *,
    key: Optional[Path] = None,
    keys: Optional[str] = None,
) -> str:
    """Excludes an island for good.

    key: private key of this node, made by penstock ring key
    keys: public keys of all nodes: island-N.pub, coordinator-N.pub, operator-NAME.pub
    """
    return Line("ring evict", locals(), "address", "island").output()


def schema(
    name: Optional[str] = None,
) -> Answer:
    """Lists JSON schemas, or prints the one of this name."""
    return Line("schema", locals(), "name").answer()
