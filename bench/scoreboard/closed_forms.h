// Closed forms of memory, work and traffic, as published. Sizes in bytes, parameters as numbers of them.
#pragma once

namespace trireme::scoreboard {

// Bytes of weights, gradients and Adam's states on one of `ranks` data-parallel ranks, in mixed precision: 2 + 2 + 12 of
// a parameter, of which stage 1 shards the states, 2 the gradients as well, 3 the weights as well (Rajbhandari et al.
// 2020, arXiv 1910.02054, section 3 and figure 1). `stage` 0 to 3.
double zero_model_states(double parameters, int stage, double ranks);

// A GPT as the papers of Megatron-LM count it: blocks of attention and a feed-forward part 4 wide, learned positions,
// head tied to the embedding.
struct GptShape {
  double layers = 0, hidden = 0, heads = 0, sequence = 0, vocabulary = 0;
};

// 12Lh^2 (1 + 13/(12h) + (V+s)/(12Lh)): Narayanan et al. 2021, arXiv 2104.04473, equation 2.
double gpt_parameters(const GptShape& gpt);

// Operations of one step of `batch` sequences, forward and backward, multiply-adds counting two; attention as if it were
// not causal.
// Without what is computed again: 72BLsh^2 (1 + s/(6h) + V/(12hL)), Korthikanti et al. 2022, arXiv 2205.05198,
// equation 7: what MFU divides.
double gpt_model_flops(const GptShape& gpt, double batch);
// With selective recomputation, as printed there (equation 8; exactly, its s/(3h) would be 2s/(9h)): what HFU divides.
double gpt_selective_flops(const GptShape& gpt, double batch);
// With full recomputation: 96BsLh^2 (1 + s/(6h) + V/(16Lh)), Narayanan et al. 2021, equation 3.
double gpt_full_flops(const GptShape& gpt, double batch);

// What of a block's activations is kept between forward and backward.
enum class Kept { kAll, kSelective, kInput };

// Bytes that one block keeps of one micro-batch on one of `tp` ranks, in 16 bits with unfused attention, per Korthikanti
// et al. 2022, table 2. `sequence_parallel` shards what tensor parallelism leaves whole. Of kInput: the block's
// input, whole on every rank.
double block_activations(const GptShape& gpt, double micro_batch, double tp, bool sequence_parallel,
                         Kept kept);

// In how many micro-batches of all layers the first rank's activations are counted, whatever `pp` is: 1, and
// 1 + (pp-1)/(pp chunks) interleaved (section 4.2.3 there).
double first_rank_share(double pp, double chunks);

// Elements that a rank sends in a step of data parallelism over `ranks`, in times of the parameters, of large groups:
// 2 up to stage 2, 3 of stage 3 (Rajbhandari et al. 2020, section 7).
double zero_traffic(int stage);

// Elements that cross hosts in a step of ZeRO++ (Wang et al. 2023, arXiv 2306.10209), in times of the parameters: weights
// in 8 bits in forward, from inside the host in backward, gradients in 4 bits.
double zero_pp_traffic();

// Share of a step that ranks are idle, of `pp` ranks and `micro_batches`, without transfers: (p-1)/(m+p-1).
double one_f_one_b_bubble(double pp, double micro_batches);

// Tokens of a block from which ring attention hides sending behind computing: operations a second over bytes a second
// each way (Liu et al. 2023, arXiv 2310.01889, section 3).
double ring_attention_block(double flops, double bytes_per_second);

// In times of one rank, causal attention of a sequence in order on so many, where who is done attends for others (Li et al. 2023,
// arXiv 2310.03294, section 3.2): half a block of its own, then `ranks` / 2 whole ones at most, of ranks^2 / 2.
double helped_ring_speedup(int ranks);

}  // namespace trireme::scoreboard
