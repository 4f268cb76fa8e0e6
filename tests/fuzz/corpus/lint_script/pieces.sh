A=parallel
python pretrain_gpt.py --num-layers 4 --squence-$A ${A}x
