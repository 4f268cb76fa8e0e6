# Options that another script sources.
MODEL_ARGS=(
   --swiglu --num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144
   --num-attention-heads 32 --group-query-attention --num-query-groups 4 --kv-channels 128
   --num-experts 128 --moe-router-topk 8
)
