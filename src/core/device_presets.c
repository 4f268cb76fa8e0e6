/*
 * Devices by their vendors' sheets: dense products, no sparsity, with sums in
 * f32. A device is what software sees as one: of an MI250X one of two dies.
 *
 * Memory is what software sees: the total that nvidia-smi and rocm-smi report,
 * of devices with HBM3 less than the nominal size. A process finds a little
 * less free, which the predictions count as overhead.
 *
 *   h100, h800  81559 MiB, 79.6 GiB: nvidia-smi of "NVIDIA H100 80GB HBM3"
 *   h20         97871 MiB: nvidia-smi of "NVIDIA H20"
 *   h200        143771 MiB: nvidia-smi of "NVIDIA H200"
 *   b200        183359 MiB: nvidia-smi of "NVIDIA B200"
 *   gb200       189471 MiB: nvidia-smi of "NVIDIA GB200"
 *   b300        275040 MiB: nvidia-smi of "NVIDIA B300 SXM6 AC"
 *   gb300       284208 MiB: nvidia-smi of "NVIDIA GB300"
 *   mi300x      205822885888 B, 196288 MiB: rocm-smi of "AMD Instinct MI300X"
 *   mi355x      309220868096 B, 294896 MiB: rocm-smi of "AMD Instinct MI355X"
 *   the others  the nominal size in GiB
 *
 *   v100      NVIDIA V100 datasheet (SXM2)
 *   a100      NVIDIA A100 datasheet (SXM)
 *   h100      NVIDIA H100 datasheet; half of what it gives with sparsity
 *   h200      NVIDIA H200 datasheet
 *   h800      an H100 SXM with NVLink of 400 instead of 900 GB/s (Zhao et al.,
 *             arXiv 2505.09343)
 *   h20       NVIDIA H20 brochure: 148 Tflop/s of bf16, 296 of fp8, 44 of f32,
 *             4.0 TB/s; 78 units; nvidia-smi shows a limit of 500 W
 *   b200      NVIDIA DGX B200 and HGX B200 datasheets, an eighth: 72 Pflop/s of
 *             nvfp4, dense; 36 of bf16 and 72 of fp8 with sparsity, so a half
 *   b300      NVIDIA HGX B300 datasheet, an eighth: 108 Pflop/s of dense nvfp4,
 *             36 of bf16 and 72 of fp8 with sparsity, so a half; 1100 W
 *   gb200     NVIDIA GB200 NVL72 datasheet, a 72nd: 720 Pflop/s of dense nvfp4
 *   gb300     NVIDIA GB300 NVL72 datasheet, a 72nd: 1080 Pflop/s of nvfp4,
 *             dense; 360 of bf16 and 720 of fp8 with sparsity, so a half of
 *             it; 1400 W
 *   mi250x    AMD Instinct MI250X datasheet, half
 *   mi300x    AMD Instinct MI300X datasheet
 *   mi355x    AMD Instinct MI355X datasheet: 2.5 Pflop/s of bf16, 5.0 of fp8
 *             and mxfp8; 1400 W. Its 4 bits are MXFP4, not NVFP4
 *   rtx3080   NVIDIA GA102 white paper, appendix
 *   rtx4090   NVIDIA Ada white paper, appendix
 *   xeon-amx  Intel Xeon Platinum 8480+: 56 cores at 2 GHz, 1024 (bf16) and 64
 *             (f32) flops a cycle and core, 8 channels of DDR5-4800 with 64 GiB
 *             each; a core is its share of the socket
 *
 * Blackwell computes mxfp8 as fast as fp8; devices before it have no scales in
 * their products, so they do not offer mxfp8.
 *
 * Watts of a device that computes are the limit of its sheet. Watts of one that
 * waits are readings with a process on the device and 0 % use, for the process
 * alone adds 26 to 50 W to devices with HBM (Vadari, arXiv 2605.23918):
 *
 *   v100      53 W: nvidia-smi, github.com/zai-org/GLM-130B/issues/32
 *   a100      52 W without a process (github.com/pytorch/pytorch/issues/53395),
 *             and 26 W for it
 *   h100-sxm  70 W without one (github.com/NVIDIA/nccl/issues/1967), and 50 W;
 *             github.com/NVIDIA/nccl/issues/1550 has 129 to 137 W with one. An
 *             h200 is the same chip
 *   b200      194 W: github.com/NVIDIA/TensorRT-LLM/issues/10278; gb200 alike
 *   mi300x    191 W: rocm-smi, github.com/ROCm/legacy-rocm-build/issues/5231
 *
 * The others have 0, since no reading was found: pen_device_idle_watts() takes
 * a share of their watts.
 */
#include "core/cluster_internal.h"

#include <string.h>

struct preset {
    struct pen_device device;
    const char *system; /* where it usually is, by its name */
};

/* Speeds in Tflop/s, memory in MiB, its bandwidth in GB/s. */
#define DEVICE(name, f32, bf16, fp16, fp8, mxfp8, nvfp4, memory, bandwidth,    \
               busy, idle, system)                                             \
    {                                                                          \
        {.kind = name,                                                         \
         .flops = {(f32)*1e12, (bf16)*1e12, (fp16)*1e12, (fp8)*1e12,           \
                   (mxfp8)*1e12, (nvfp4)*1e12},                                \
         .memory_bytes = UINT64_C(memory) << 20,                               \
         .memory_bytes_per_sec = (bandwidth)*1e9,                              \
         .watts = (busy),                                                      \
         .idle_watts = (idle)},                                                \
            system                                                             \
    }

static const struct preset presets[] = {
    DEVICE("v100-16", 15.7, 0, 125, 0, 0, 0, 16384, 900, 300, 53, "dgx-1"),
    DEVICE("v100-32", 15.7, 0, 125, 0, 0, 0, 32768, 900, 300, 53, "dgx-1"),
    DEVICE("a100-40", 19.5, 312, 312, 0, 0, 0, 40960, 1555, 400, 78,
           "dgx-a100"),
    DEVICE("a100-80", 19.5, 312, 312, 0, 0, 0, 81920, 2039, 400, 78,
           "dgx-a100"),
    DEVICE("h100-sxm", 67, 989, 989, 1979, 0, 0, 81559, 3350, 700, 120,
           "dgx-h100"),
    DEVICE("h100-pcie", 51, 756, 756, 1513, 0, 0, 81559, 2000, 350, 0,
           "h100-pcie-node"),
    DEVICE("h200", 67, 989, 989, 1979, 0, 0, 143771, 4800, 700, 120,
           "dgx-h200"),
    DEVICE("h800", 67, 989, 989, 1979, 0, 0, 81559, 3350, 700, 120, "hgx-h800"),
    DEVICE("h20", 44, 148, 148, 296, 0, 0, 97871, 4000, 500, 0, "hgx-h20"),
    DEVICE("b200", 75, 2250, 2250, 4500, 4500, 9000, 183359, 8000, 1000, 194,
           "dgx-b200"),
    DEVICE("b300", 75, 2250, 2250, 4500, 4500, 13500, 275040, 8000, 1100, 0,
           "hgx-b300"),
    DEVICE("gb200", 80, 2500, 2500, 5000, 5000, 10000, 189471, 8000, 1200, 194,
           "gb200-nvl72"),
    DEVICE("gb300", 80, 2500, 2500, 5000, 5000, 15000, 284208, 8000, 1400, 0,
           "gb300-nvl72"),
    DEVICE("mi250x", 23.9, 191.5, 191.5, 0, 0, 0, 65536, 1638, 280, 0,
           "mi250x-node"),
    DEVICE("mi300x", 163.4, 1307, 1307, 2615, 0, 0, 196288, 5300, 750, 191,
           "mi300x-node"),
    DEVICE("mi355x", 157.3, 2516, 2516, 5033, 5033, 0, 294896, 8000, 1400, 0,
           "mi355x-node"),
    DEVICE("rtx3080", 29.8, 59.5, 59.5, 0, 0, 0, 10240, 760, 320, 0,
           "ethernet-25"),
    DEVICE("rtx4090", 82.6, 165.2, 165.2, 330.3, 0, 0, 24576, 1008, 450, 0,
           "ethernet-25"),
    DEVICE("xeon-amx", 7.168, 114.688, 0, 0, 0, 0, 524288, 307.2, 350, 0,
           "xeon-node"),
    DEVICE("xeon-amx-core", 0.128, 2.048, 0, 0, 0, 0, 9216, 5.5, 6, 0,
           "xeon-node-cores")};

enum { NUM_PRESETS = sizeof presets / sizeof *presets };

static const struct preset *find(const char *kind)
{
    for (size_t i = 0; i < NUM_PRESETS; i++)
        if (strcmp(presets[i].device.kind, kind) == 0)
            return &presets[i];
    return NULL;
}

/*
 * The presets with known idle watts have 17 to 25 %; an RTX 5090, which is not
 * among them, has 18 %.
 */
#define IDLE_SHARE 0.2

double pen_device_idle_watts(const struct pen_device *device)
{
    return device->idle_watts > 0 ? device->idle_watts
                                  : IDLE_SHARE * device->watts;
}

const struct pen_device *pen_device_at(size_t index)
{
    return index < NUM_PRESETS ? &presets[index].device : NULL;
}

const struct pen_device *pen_device_find(const char *kind)
{
    const struct preset *preset = find(kind);
    return preset == NULL ? NULL : &preset->device;
}

const char *pen__device_system(const char *kind)
{
    const struct preset *preset = find(kind);
    return preset == NULL ? NULL : preset->system;
}
