/*
 * Well-known models by name: each is the config.json that its authors
 * published, as far as it describes size and layers. The common part of a
 * series is written once.
 */
#include "core/model_internal.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum size { WIDTH, BLOCKS, HEADS, KV_HEADS, INNER, SIZES };

/* The names of the sizes; NULL where there is no such key. */
static const char *const gpt2_keys[SIZES] = {"n_embd", "n_layer", "n_head",
                                             NULL, "n_inner"};
static const char *const bloom_keys[SIZES] = {"hidden_size", "n_layer",
                                              "n_head", NULL, NULL};
static const char *const opt_keys[SIZES] = {
    "hidden_size", "num_hidden_layers", "num_attention_heads", NULL, "ffn_dim"};
static const char *const bert_keys[SIZES] = {"hidden_size", "num_hidden_layers",
                                             "num_attention_heads", NULL,
                                             "intermediate_size"};
static const char *const llama_keys[SIZES] = {
    "hidden_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "intermediate_size"};

enum series_name {
    GPT2,
    GPT3,
    LLAMA_2,
    LLAMA_3,
    MISTRAL,
    MIXTRAL,
    QWEN_25,
    QWEN_3,
    QWEN_3_MOE,
    QWEN_35,
    QWEN_35_MOE,
    DEEPSEEK_V2,
    DEEPSEEK,
    DEEPSEEK_V32,
    DEEPSEEK_V4,
    KIMI,
    GLM_45,
    GLM_5,
    LLAMA_4,
    GEMMA_3,
    GEMMA_4,
    NEMOTRON_3,
    MINIMAX,
    GPT_OSS,
    OPT,
    BLOOM,
    PYTHIA,
    BERT
};

#define QWEN_35_KEYS                                                           \
    "'vocab_size':248320,'head_dim':256,'max_position_embeddings':262144,"     \
    "'full_attention_interval':4,'linear_key_head_dim':128,"                   \
    "'linear_value_head_dim':128,'linear_num_key_heads':16,"                   \
    "'linear_conv_kernel_dim':4,'mtp_num_hidden_layers':1"
#define GEMMA_KEYS "'hidden_activation':'gelu_pytorch_tanh'"

/* JSON with ' for ", and no braces. */
static const struct series {
    const char *const *keys;
    const char *common;
} all_series[] = {
    [GPT2] = {gpt2_keys,
              "'model_type':'gpt2','vocab_size':50257,'n_positions':1024"},
    /* Megatron's GPTs: the vocabulary is GPT-2's, rounded up. */
    [GPT3] = {gpt2_keys,
              "'model_type':'gpt2','vocab_size':51200,'n_positions':2048"},
    [LLAMA_2] = {llama_keys,
                 "'model_type':'llama','vocab_size':32000,'rms_norm_eps':1e-5,"
                 "'max_position_embeddings':4096,'torch_dtype':'float16'"},
    [LLAMA_3] = {llama_keys,
                 "'model_type':'llama','vocab_size':128256,'rms_norm_eps':1e-5,"
                 "'max_position_embeddings':131072,'rope_theta':500000.0,"
                 "'torch_dtype':'bfloat16'"},
    [MISTRAL] = {llama_keys,
                 "'model_type':'mistral','vocab_size':32768,"
                 "'rms_norm_eps':1e-5,'max_position_embeddings':32768,"
                 "'rope_theta':1000000.0,'sliding_window':null,"
                 "'torch_dtype':'bfloat16'"},
    [MIXTRAL] = {llama_keys, "'model_type':'mixtral','vocab_size':32000,"
                             "'num_local_experts':8,'num_experts_per_tok':2,"
                             "'torch_dtype':'bfloat16'"},
    [QWEN_25] = {llama_keys, "'model_type':'qwen2','rope_theta':1000000.0,"
                             "'torch_dtype':'bfloat16'"},
    [QWEN_3] = {llama_keys,
                "'model_type':'qwen3','vocab_size':151936,'head_dim':128,"
                "'max_position_embeddings':40960,'rope_theta':1000000.0,"
                "'torch_dtype':'bfloat16'"},
    [QWEN_3_MOE] = {llama_keys,
                    "'model_type':'qwen3_moe','vocab_size':151936,"
                    "'head_dim':128,'max_position_embeddings':40960,"
                    "'rope_theta':1000000.0,'num_experts':128,"
                    "'num_experts_per_tok':8,'norm_topk_prob':true,"
                    "'torch_dtype':'bfloat16'"},
    [DEEPSEEK_V2] = {llama_keys,
                     "'model_type':'deepseek_v2','vocab_size':102400,"
                     "'max_position_embeddings':163840,'kv_lora_rank':512,"
                     "'qk_nope_head_dim':128,'qk_rope_head_dim':64,"
                     "'v_head_dim':128,'num_experts_per_tok':6,"
                     "'n_shared_experts':2,'first_k_dense_replace':1,"
                     "'rope_scaling':{'type':'yarn','factor':40,"
                     "'mscale':0.707,'mscale_all_dim':0.707,"
                     "'original_max_position_embeddings':4096},"
                     "'torch_dtype':'bfloat16'"},
    [DEEPSEEK] = {llama_keys,
                  "'model_type':'deepseek_v3','vocab_size':129280,"
                  "'max_position_embeddings':163840,'q_lora_rank':1536,"
                  "'kv_lora_rank':512,'qk_nope_head_dim':128,"
                  "'qk_rope_head_dim':64,'v_head_dim':128,"
                  "'n_routed_experts':256,'num_experts_per_tok':8,"
                  "'moe_intermediate_size':2048,'n_shared_experts':1,"
                  "'first_k_dense_replace':3,'num_nextn_predict_layers':1,"
                  "'rope_scaling':{'type':'yarn','factor':40,'mscale':1.0,"
                  "'mscale_all_dim':1.0,"
                  "'original_max_position_embeddings':4096},"
                  "'torch_dtype':'bfloat16'"},
    [QWEN_35] = {llama_keys, "'model_type':'qwen3_5_text'," QWEN_35_KEYS},
    [QWEN_35_MOE] = {llama_keys,
                     "'model_type':'qwen3_5_moe_text'," QWEN_35_KEYS},
    [DEEPSEEK_V32] = {llama_keys,
                      "'model_type':'deepseek_v32','vocab_size':129280,"
                      "'max_position_embeddings':163840,'q_lora_rank':1536,"
                      "'kv_lora_rank':512,'qk_nope_head_dim':128,"
                      "'qk_rope_head_dim':64,'v_head_dim':128,"
                      "'index_head_dim':128,'index_n_heads':64,"
                      "'index_topk':2048,'n_routed_experts':256,"
                      "'num_experts_per_tok':8,'moe_intermediate_size':2048,"
                      "'n_shared_experts':1,'first_k_dense_replace':3,"
                      "'num_nextn_predict_layers':1"},
    [DEEPSEEK_V4] = {llama_keys,
                     "'model_type':'deepseek_v4','vocab_size':129280,"
                     "'max_position_embeddings':1048576,'head_dim':512,"
                     "'sliding_window':128,'o_lora_rank':1024,'hc_mult':4,"
                     "'index_head_dim':128,'index_n_heads':64,"
                     "'num_experts_per_tok':6,'n_shared_experts':1,"
                     "'num_hash_layers':3,'num_nextn_predict_layers':1"},
    [KIMI] = {llama_keys,
              "'model_type':'kimi_k2','vocab_size':163840,"
              "'max_position_embeddings':131072,'q_lora_rank':1536,"
              "'kv_lora_rank':512,'qk_nope_head_dim':128,"
              "'qk_rope_head_dim':64,'v_head_dim':128,'rope_theta':50000.0,"
              "'n_routed_experts':384,'num_experts_per_tok':8,"
              "'moe_intermediate_size':2048,'n_shared_experts':1,"
              "'n_group':1,'topk_group':1,'routed_scaling_factor':2.827,"
              "'rope_scaling':{'type':'yarn','factor':32,'beta_fast':1.0,"
              "'beta_slow':1.0,'mscale':1.0,'mscale_all_dim':1.0,"
              "'original_max_position_embeddings':4096},"
              "'first_k_dense_replace':1"},
    [GLM_45] = {llama_keys,
                "'model_type':'glm4_moe','vocab_size':151552,'head_dim':128,"
                "'rope_theta':1000000.0,'rms_norm_eps':1e-5,"
                "'attention_bias':true,'num_experts_per_tok':8,"
                "'n_shared_experts':1,'num_nextn_predict_layers':1"},
    [GLM_5] = {llama_keys,
               "'model_type':'glm_moe_dsa','vocab_size':154880,"
               "'max_position_embeddings':202752,'rms_norm_eps':1e-5,"
               "'q_lora_rank':2048,'kv_lora_rank':512,"
               "'qk_nope_head_dim':192,'qk_rope_head_dim':64,"
               "'v_head_dim':256,'index_head_dim':128,'index_n_heads':32,"
               "'index_topk':2048,'n_routed_experts':256,"
               "'num_experts_per_tok':8,'moe_intermediate_size':2048,"
               "'n_shared_experts':1,'first_k_dense_replace':3,"
               "'num_nextn_predict_layers':1"},
    [LLAMA_4] = {llama_keys,
                 "'model_type':'llama4_text','vocab_size':202048,"
                 "'head_dim':128,'rope_theta':500000.0,'rms_norm_eps':1e-5,"
                 "'attention_chunk_size':8192,'intermediate_size_mlp':16384,"
                 "'num_experts_per_tok':1"},
    [GEMMA_3] = {llama_keys, "'model_type':'gemma3_text'," GEMMA_KEYS},
    [GEMMA_4] = {llama_keys,
                 "'model_type':'gemma4_text','num_experts':128,"
                 "'top_k_experts':8,'global_head_dim':512,"
                 "'num_global_key_value_heads':2,'attention_k_eq_v':true,"
                 "'max_position_embeddings':262144," GEMMA_KEYS},
    [NEMOTRON_3] = {llama_keys,
                    "'model_type':'nemotron_h','vocab_size':131072,"
                    "'max_position_embeddings':262144,'head_dim':128,"
                    "'norm_eps':1e-5,'mlp_hidden_act':'relu2',"
                    "'mamba_head_dim':64,'ssm_state_size':128,'n_groups':8,"
                    "'conv_kernel':4,'chunk_size':128,'use_conv_bias':true"},
    [MINIMAX] = {llama_keys, "'model_type':'minimax_m2','vocab_size':200064,"
                             "'max_position_embeddings':196608,'head_dim':128,"
                             "'rope_theta':5000000.0,'num_local_experts':256,"
                             "'num_experts_per_tok':8,'num_mtp_modules':3"},
    [GPT_OSS] = {llama_keys,
                 "'model_type':'gpt_oss','vocab_size':201088,'head_dim':64,"
                 "'max_position_embeddings':131072,'rope_theta':150000.0,"
                 "'num_experts_per_tok':4,'sliding_window':128"},
    [OPT] = {opt_keys, "'model_type':'opt','vocab_size':50272,"
                       "'max_position_embeddings':2048"},
    [BLOOM] = {bloom_keys, "'model_type':'bloom','vocab_size':250880"},
    [PYTHIA] = {bert_keys,
                "'model_type':'gpt_neox','max_position_embeddings':2048"},
    [BERT] = {bert_keys, "'model_type':'bert','vocab_size':30522,"
                         "'max_position_embeddings':512"}};

#define LLAMA_31                                                               \
    "'rope_scaling':{'rope_type':'llama3','factor':8.0,"                       \
    "'low_freq_factor':1.0,'high_freq_factor':4.0,"                            \
    "'original_max_position_embeddings':8192}"
#define LLAMA_32                                                               \
    "'tie_word_embeddings':true,'rope_scaling':{'rope_type':'llama3',"         \
    "'factor':32.0,'low_freq_factor':1.0,'high_freq_factor':4.0,"              \
    "'original_max_position_embeddings':8192}"
#define TIED "'tie_word_embeddings':true"
#define QWEN_SMALL(positions)                                                  \
    TIED ",'vocab_size':151936,'max_position_embeddings':" positions
#define QWEN_LARGE "'vocab_size':152064,'max_position_embeddings':131072"

#define DELTA(heads) "'linear_num_value_heads':" heads
#define QWEN_EXPERTS(count, each, width)                                       \
    "'num_experts':" count ",'num_experts_per_tok':" each                      \
    ",'moe_intermediate_size':" width                                          \
    ",'shared_expert_intermediate_size':" width
#define CSA_HCA_5 ",4,128,4,128,4,128,4,128,4,128"
#define CSA_HCA_20 CSA_HCA_5 CSA_HCA_5 CSA_HCA_5 CSA_HCA_5
#define GEMMA(rope, window) "'rope_theta':" rope ",'sliding_window':" window
#define NEMOTRON(pattern, heads, experts, each, width, shared)                 \
    "'hybrid_override_pattern':'" pattern "','mamba_num_heads':" heads         \
    ",'n_routed_experts':" experts ",'num_experts_per_tok':" each              \
    ",'moe_intermediate_size':" width                                          \
    ",'moe_shared_expert_intermediate_size':" shared

/* clang-format off */
static const struct preset {
    const char *name;
    enum series_name series; /* in this order */
    uint32_t sizes[SIZES];
    const char *own; /* as in the series; or NULL */
} presets[] = {
    {"gpt2",             GPT2,       {  768,  12,  12,   0,  3072}, NULL},
    {"gpt2-medium",      GPT2,       { 1024,  24,  16,   0,  4096}, NULL},
    {"gpt2-large",       GPT2,       { 1280,  36,  20,   0,  5120}, NULL},
    {"gpt2-xl",          GPT2,       { 1600,  48,  25,   0,  6400}, NULL},
    {"gpt3-175b",        GPT3,       {12288,  96,  96,   0, 49152}, NULL},
    {"mt-nlg-530b",      GPT3,       {20480, 105, 128,   0, 81920}, NULL},
    {"gpt-1t",           GPT3,       {25600, 128, 160,   0, 102400}, NULL},
    {"llama-2-7b",       LLAMA_2,    { 4096,  32,  32,  32, 11008}, NULL},
    {"llama-2-13b",      LLAMA_2,    { 5120,  40,  40,  40, 13824}, NULL},
    {"llama-2-70b",      LLAMA_2,    { 8192,  80,  64,   8, 28672}, NULL},
    {"llama-3.1-8b",     LLAMA_3,    { 4096,  32,  32,   8, 14336}, LLAMA_31},
    {"llama-3.1-70b",    LLAMA_3,    { 8192,  80,  64,   8, 28672}, LLAMA_31},
    {"llama-3.1-405b",   LLAMA_3,    {16384, 126, 128,   8, 53248}, LLAMA_31},
    {"llama-3.2-1b",     LLAMA_3,    { 2048,  16,  32,   8,  8192}, LLAMA_32},
    {"llama-3.2-3b",     LLAMA_3,    { 3072,  28,  24,   8,  8192}, LLAMA_32},
    {"mistral-7b",       MISTRAL,    { 4096,  32,  32,   8, 14336}, NULL},
    {"mixtral-8x7b",     MIXTRAL,    { 4096,  32,  32,   8, 14336}, "'max_position_embeddings':32768"},
    {"mixtral-8x22b",    MIXTRAL,    { 6144,  56,  48,   8, 16384}, "'max_position_embeddings':65536"},
    {"qwen2.5-0.5b",     QWEN_25,    {  896,  24,  14,   2,  4864}, QWEN_SMALL("32768")},
    {"qwen2.5-1.5b",     QWEN_25,    { 1536,  28,  12,   2,  8960}, QWEN_SMALL("131072")},
    {"qwen2.5-3b",       QWEN_25,    { 2048,  36,  16,   2, 11008}, QWEN_SMALL("32768")},
    {"qwen2.5-7b",       QWEN_25,    { 3584,  28,  28,   4, 18944}, QWEN_LARGE},
    {"qwen2.5-14b",      QWEN_25,    { 5120,  48,  40,   8, 13824}, QWEN_LARGE ",'rms_norm_eps':1e-5"},
    {"qwen2.5-32b",      QWEN_25,    { 5120,  64,  40,   8, 27648}, QWEN_LARGE ",'rms_norm_eps':1e-5"},
    {"qwen2.5-72b",      QWEN_25,    { 8192,  80,  64,   8, 29568}, QWEN_LARGE ",'rms_norm_eps':1e-5"},
    {"qwen3-0.6b",       QWEN_3,     { 1024,  28,  16,   8,  3072}, TIED},
    {"qwen3-1.7b",       QWEN_3,     { 2048,  28,  16,   8,  6144}, TIED},
    {"qwen3-4b",         QWEN_3,     { 2560,  36,  32,   8,  9728}, TIED},
    {"qwen3-8b",         QWEN_3,     { 4096,  36,  32,   8, 12288}, NULL},
    {"qwen3-14b",        QWEN_3,     { 5120,  40,  40,   8, 17408}, NULL},
    {"qwen3-32b",        QWEN_3,     { 5120,  64,  64,   8, 25600}, NULL},
    {"qwen3-30b-a3b",    QWEN_3_MOE, { 2048,  48,  32,   4,  6144}, "'moe_intermediate_size':768"},
    {"qwen3-235b-a22b",  QWEN_3_MOE, { 4096,  94,  64,   4, 12288}, "'moe_intermediate_size':1536"},
    {"qwen3.5-27b",      QWEN_35,    { 5120,  64,  24,   4, 17408}, DELTA("48")},
    {"qwen3.5-35b-a3b",  QWEN_35_MOE, {2048,  40,  16,   2,     0}, DELTA("32") "," QWEN_EXPERTS("256", "8", "512")},
    {"qwen3.5-122b-a10b", QWEN_35_MOE, {3072, 48,  32,   2,     0}, DELTA("64") "," QWEN_EXPERTS("256", "8", "1024")},
    {"qwen3.5-397b-a17b", QWEN_35_MOE, {4096, 60,  32,   2,     0}, DELTA("64") "," QWEN_EXPERTS("512", "10", "1024")},
    {"deepseek-v2-lite", DEEPSEEK_V2, { 2048, 27,  16,  16, 10944}, "'q_lora_rank':null,'n_routed_experts':64,'moe_intermediate_size':1408"},
    {"deepseek-v2",      DEEPSEEK_V2, { 5120, 60, 128, 128, 12288}, "'q_lora_rank':1536,'n_routed_experts':160,'moe_intermediate_size':1536,'n_group':8,'topk_group':3,'topk_method':'group_limited_greedy','routed_scaling_factor':16.0"},
    {"deepseek-v3",      DEEPSEEK,   { 7168,  61, 128, 128, 18432}, NULL},
    {"deepseek-v3.2",    DEEPSEEK_V32, {7168, 61, 128, 128, 18432}, NULL},
    {"deepseek-v4-flash", DEEPSEEK_V4, {4096, 43,  64,   1,     0},
     "'q_lora_rank':1024,'o_groups':8,'index_topk':512,'n_routed_experts':256,'moe_intermediate_size':2048,"
     "'compress_ratios':[0,0" CSA_HCA_20 ",4,0]"},
    {"deepseek-v4-pro",  DEEPSEEK_V4, { 7168, 61, 128,   1,     0},
     "'q_lora_rank':1536,'o_groups':16,'index_topk':1024,'n_routed_experts':384,'moe_intermediate_size':3072,"
     "'compress_ratios':[128,128" CSA_HCA_20 CSA_HCA_5 ",4,128,4,128,4,128,4,128,4,0]"},
    {"kimi-k2",          KIMI,       { 7168,  61,  64,  64, 18432}, NULL},
    {"glm-4.5-air",      GLM_45,     { 4096,  46,  96,   8, 10944}, "'max_position_embeddings':131072,'n_routed_experts':128,'moe_intermediate_size':1408,'first_k_dense_replace':1"},
    {"glm-4.5",          GLM_45,     { 5120,  92,  96,   8, 12288}, "'max_position_embeddings':131072,'n_routed_experts':160,'moe_intermediate_size':1536,'first_k_dense_replace':3,'use_qk_norm':true"},
    {"glm-4.6",          GLM_45,     { 5120,  92,  96,   8, 12288}, "'max_position_embeddings':202752,'n_routed_experts':160,'moe_intermediate_size':1536,'first_k_dense_replace':3,'use_qk_norm':true"},
    {"glm-5",            GLM_5,      { 6144,  78,  64,  64, 12288}, NULL},
    {"llama-4-scout",    LLAMA_4,    { 5120,  48,  40,   8,  8192}, "'num_local_experts':16,'max_position_embeddings':10485760"},
    {"llama-4-maverick", LLAMA_4,    { 5120,  48,  40,   8,  8192}, "'num_local_experts':128,'interleave_moe_layer_step':2,'max_position_embeddings':1048576"},
    {"gemma-3-1b",       GEMMA_3,    { 1152,  26,   4,   1,  6912}, "'vocab_size':262144,'head_dim':256," GEMMA("1000000.0", "512")},
    {"gemma-3-27b",      GEMMA_3,    { 5376,  62,  32,  16, 21504}, "'vocab_size':262208,'head_dim':128," GEMMA("1000000.0", "1024")},
    {"gemma-4-26b-a4b",  GEMMA_4,    { 2816,  30,  16,   8,  2112}, "'vocab_size':262144,'head_dim':256,'moe_intermediate_size':704," GEMMA("10000.0", "1024")},
    {"nemotron-3-nano",  NEMOTRON_3, { 2688,  52,  32,   2,  1856},
     NEMOTRON("MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "64", "128", "6", "1856", "3712")},
    {"nemotron-3-super", NEMOTRON_3, { 4096,  88,  32,   2,  2688},
     NEMOTRON("MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME", "128", "512", "22", "2688", "5376")
     ",'moe_latent_size':1024,'num_nextn_predict_layers':1"},
    {"nemotron-3-ultra", NEMOTRON_3, { 8192, 108,  64,   2,  5120},
     NEMOTRON("MEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "256", "512", "22", "5120", "10240")
     ",'moe_latent_size':2048,'num_nextn_predict_layers':1"},
    {"minimax-m2.5",     MINIMAX,    { 3072,  62,  48,   8,  1536}, NULL},
    {"gpt-oss-20b",      GPT_OSS,    { 2880,  24,  64,   8,  2880}, "'num_local_experts':32"},
    {"gpt-oss-120b",     GPT_OSS,    { 2880,  36,  64,   8,  2880}, "'num_local_experts':128"},
    {"opt-125m",         OPT,        {  768,  12,  12,   0,  3072}, NULL},
    {"opt-350m",         OPT,        { 1024,  24,  16,   0,  4096}, "'word_embed_proj_dim':512,'do_layer_norm_before':false"},
    {"opt-1.3b",         OPT,        { 2048,  24,  32,   0,  8192}, NULL},
    {"opt-2.7b",         OPT,        { 2560,  32,  32,   0, 10240}, NULL},
    {"opt-6.7b",         OPT,        { 4096,  32,  32,   0, 16384}, NULL},
    {"opt-13b",          OPT,        { 5120,  40,  40,   0, 20480}, NULL},
    {"opt-30b",          OPT,        { 7168,  48,  56,   0, 28672}, NULL},
    {"opt-66b",          OPT,        { 9216,  64,  72,   0, 36864}, NULL},
    {"opt-175b",         OPT,        {12288,  96,  96,   0, 49152}, NULL},
    {"bloom-560m",       BLOOM,      { 1024,  24,  16,   0,     0}, NULL},
    {"bloom-1b1",        BLOOM,      { 1536,  24,  16,   0,     0}, NULL},
    {"bloom-1b7",        BLOOM,      { 2048,  24,  16,   0,     0}, NULL},
    {"bloom-3b",         BLOOM,      { 2560,  30,  32,   0,     0}, NULL},
    {"bloom-7b1",        BLOOM,      { 4096,  30,  32,   0,     0}, NULL},
    {"bloom-176b",       BLOOM,      {14336,  70, 112,   0,     0}, NULL},
    {"pythia-14m",       PYTHIA,     {  128,   6,   4,   0,   512}, "'vocab_size':50304"},
    {"pythia-31m",       PYTHIA,     {  256,   6,   8,   0,  1024}, "'vocab_size':50304"},
    {"pythia-70m",       PYTHIA,     {  512,   6,   8,   0,  2048}, "'vocab_size':50304"},
    {"pythia-160m",      PYTHIA,     {  768,  12,  12,   0,  3072}, "'vocab_size':50304"},
    {"pythia-410m",      PYTHIA,     { 1024,  24,  16,   0,  4096}, "'vocab_size':50304"},
    {"pythia-1b",        PYTHIA,     { 2048,  16,   8,   0,  8192}, "'vocab_size':50304"},
    {"pythia-1.4b",      PYTHIA,     { 2048,  24,  16,   0,  8192}, "'vocab_size':50304"},
    {"pythia-2.8b",      PYTHIA,     { 2560,  32,  32,   0, 10240}, "'vocab_size':50304"},
    {"pythia-6.9b",      PYTHIA,     { 4096,  32,  32,   0, 16384}, "'vocab_size':50432"},
    {"pythia-12b",       PYTHIA,     { 5120,  36,  40,   0, 20480}, "'vocab_size':50688"},
    {"gpt-neox-20b",     PYTHIA,     { 6144,  44,  64,   0, 24576}, "'vocab_size':50432"},
    {"bert-base",        BERT,       {  768,  12,  12,   0,  3072}, NULL},
    {"bert-large",       BERT,       { 1024,  24,  16,   0,  4096}, NULL},
};
/* clang-format on */

static void write_config(const struct preset *preset, struct pen_text *out)
{
    const struct series *series = &all_series[preset->series];
    pen_text_add(out, "{%s", series->common);
    for (int size = 0; size < SIZES; size++) {
        if (series->keys[size] != NULL)
            pen_text_add(out, ",'%s':%u", series->keys[size],
                         preset->sizes[size]);
    }
    if (preset->own != NULL)
        pen_text_add(out, ",%s", preset->own);
    pen_text_add_string(out, "}");
    for (size_t i = 0; i < out->length; i++) {
        if (out->bytes[i] == '\'')
            out->bytes[i] = '"';
    }
}

/* Prints one line per series. */
static void list_presets(struct pen_text *why)
{
    for (size_t i = 0; i < COUNT_OF(presets); i++) {
        bool is_first = i == 0 || presets[i].series != presets[i - 1].series;
        pen_why(why, "%s%s", is_first ? "\n  " : " ", presets[i].name);
    }
}

const char *pen_model_preset_at(size_t index)
{
    return index < COUNT_OF(presets) ? presets[index].name : NULL;
}

bool pen__model_is_preset(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(name, presets[i].name) == 0)
            return true;
    return false;
}

pen_status pen__model_make_preset(const char *name, struct pen_model **out,
                                  struct pen_text *why)
{
    struct pen_text config = PEN_TEXT_EMPTY;
    for (size_t i = 0; i < COUNT_OF(presets); i++) {
        if (strcmp(name, presets[i].name) != 0)
            continue;
        write_config(&presets[i], &config);
        pen_status status =
            config.has_failed
                ? PEN_NOMEM
                : pen_model_parse(config.bytes, config.length, out, why);
        pen_text_release(&config);
        return status;
    }
    pen_why(why, "there is no preset:%s; expected preset: and one of", name);
    list_presets(why);
    return PEN_INVALID;
}
