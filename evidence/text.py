"""The words of docs/evidence.md, between its tables."""

INTRODUCTION = """# Evidence

Written by `make evidence`. Tables of means and shares rest on {simulations} simulations a row, so that a share near
95 % has a standard error of {error} %; other tables say how many they rest on.

Models of several classes are stated in `evidence/models.py`: labels are drawn from softmax(z) with logistic-normal
logits z, and the model says softmax(T·z). Models of one probability are in `evidence/known.py`: a confidence c is right
with a known chance. *Perfect*: c; *mild*: c − 0.03; *bad*: 0.8 c; *one bad bin*: c, but c − 0.3 between 11/15 and
12/15; *two-signed*: c + 0.1 sin(2π(c − 0.3)/0.7)."""

SECTIONS = """
## Intervals of means and shares

Coverage of 95 % intervals: studentised with Hall's correction for NLL and Brier, Wilson for accuracy.

{means}

Where they are stretched: almost every row is certain and right, so the few that are wrong carry the mean, and 200 rows
hold six or seven of them.

{extreme}

## Dependent rows

200 units, each asked ten times: nearly the same prediction and one label for all ten rows. Plain intervals take the
2000 rows for independent.

{units}

## Bias of calibration errors

A plug-in calibration error of few rows is too large, most of all for a perfect model: what looks like an improvement
may be a larger test set. The figure shows mean estimates against the number of rows, for T = 1 (perfect), 1.3
(mediocre) and 2 (bad), ten classes, accuracy 0.81; dashed is the population value. It follows figure 2 of Gruber &
Buettner (2022, NeurIPS 35). Means are of 400 simulations up to n = 500, of {bias_fewest} at n = 20 000. The root Brier
score `rbs` is flat, but it measures more than calibration: it is far from 0 for a perfect model.

![Mean estimates against the number of rows](figures/bias.svg)

{bias}

## Size of the test set

The same for real networks, whose true calibration nobody knows: random subsets of test sets of 10 000 rows, drawn
without replacement as `calibrant evaluate --sizes` draws them, {sizes_count} of each size (of before and after
{sizes_more}). After figures 1 and 3 of Gruber & Buettner (2022); stated in `evidence/sizes.py`. The first columns show
the mean estimate on n rows divided by that on all rows, averaged over ten networks on CIFAR-10 and two on CIFAR-100; 1
is a flat line. The others show the improvement by temperature scaling, before − after, that n rows show on average,
divided by the one that all rows show. The canonical error `ce` is of ten classes, two networks and fifty times fewer
subsets: with more rows its bandwidth falls, and it sees more.

![Estimates against the number of rows](figures/sizes-values.svg)

![Estimates relative to those on all rows](figures/sizes-relative.svg)

![Improvements against the number of rows](figures/sizes-improvement.svg)

{sizes}

`rbs` stays within 3 % of its value at every size, `ks` from 500 rows on, as in the paper. On 100 rows the errors of
every class, and those of the top label with many bins, say that temperature scaling made these networks worse. The gain
in `rbs` on 100 rows has a standard error of about 0.03 here; with 3000 subsets it is 0.92 and 0.96 of the full gain,
for the root is concave, and that in `brier` 1.00 and 1.02.

## Intervals of calibration errors

Coverage (mean width) of 95 % intervals. The truth is the population value of the same functional, with the same bins or
kernel and each label replaced by its chance: 0 for the perfect model. A percentile bootstrap never covers it there.
`tce(debias=true)` has the interval of `tce`.

{binned_count} simulations a row (standard error {binned_error} %):

{binned}

{cumulated_count} simulations a row (standard error {cumulated_error} %):

{cumulated}

{smoothed_count} simulations a row (standard error {smoothed_error} %):

{smoothed}

Errors of every class, with T = 1 (perfect), 1.15 (mild) and 1.7 (bad). `sce` is `cwce(p=1)` divided by the number of
classes, and so are its intervals. {classes_count} simulations a row (standard error {classes_error} %):

{classes}

### Cells of different classes

A row lies in one cell (a bin of one class) of every class, so that the gaps of cells of different classes are
correlated. Coverage (mean width) of `cwce` for the bad model when these cells are taken as independent, and when their
joint covariance is used, as it is up to 320 cells (`python -m evidence.classes`). {class_cells_count} simulations a row
(standard error {class_cells_error} %):

{class_cells}

## Null bands of calibration errors

A perfect model should lie above its null band in 2.5 % of simulations, and have p < 0.05 in as many: the p-value of an
error is twice its upper tail. The table shows both shares. The signed metrics `o_e`, `slope`, `intercept` and
`spiegelhalter_z` have p < 0.05 in 5 %: the first share counts their upper side only, and p both.
Standard errors of the two shares: {null_main_band} % and {null_main_p} % of {null_main_count}
simulations, {null_more_band} % and {null_more_p} % of {null_more_count}, {null_few_band} % and {null_few_p} % of
{null_few_count}.

{null}

`mce` takes few values where a bin has few rows, so that its band errs on the safe side.

Errors of every class, and `uce`, which is not 0 for a perfect model but has the band that belongs to it.
{class_null_count} simulations a row (standard errors {class_null_band} % and {class_null_p} %):

{class_null}

## Detectable error and power

`detectable` is the error that a model must have, the same everywhere, to lie above the null band four times in five. Of
each metric: the mean `detectable` of a perfect model, and the share of {detectable_count} simulations in which a model
with just that error lay above its band.

{detectable}

No model of ten classes can be off by the same amount in every class at once, for its probabilities sum to 1; the last
row takes the over-confident model softmax(T·z) with that error instead.

## The whole distribution

Share of calibrated models with p ≤ 0.05, which should be 5 %; {canonical_count} simulations a row (standard error
{canonical_p} %). `ce` has 21 bandwidths to choose from; the choice does not look at labels.

{canonical_level}

The test of `form=block`, a normal limit, errs on the safe side with so few blocks.

The same of models that are not calibrated: the power of each test. {power_count} simulations a row.

{canonical_power}

Gaussian predictions of a number, {canonical_count} simulations a row:

{canonical_numbers}

Unbiasedness: the mean of `skce` over {unbiased_count} simulations of 50 rows, beside the truth (0 of a calibrated
model; of others from two samples of 20 000 rows), for classes with a bandwidth of 0.5. The biased form is not unbiased.
Last, how often the 95 % interval holds the truth.

{unbiased}

The canonical error: the truth, the mean estimate of {ce_count} simulations of 500 rows, and how often the 95 % interval
holds the truth (mean width; standard error {ce_error} %). The models say softmax(T·z) with T = 1, 1.7 or 0.6;
the last three rows are wrong in some classes. With ten classes the estimate is mostly noise.

{canonical_coverage}

## E-values

`log_e_value` and `Monitor`: of calibrated streams at most 5 % may *ever* reach an e-value of 20, however often one
looks. Share of {evalues_count} streams that had done so by some row (standard error of 5 %: {evalues_p} %). *Near
0.95*: p of a beta law with parameters 19 and 1.

{evalues}

How soon it finds what is wrong: median over {evalue_power_count} streams of the row at which it reaches 20.

{evalue_power}

## Detection and selective prediction

500 rows. Detection: scores N(0, 1) inside and N(1.5, 1) outside, as many of either. Selective prediction: the mild
model of one probability. {detection_count} simulations (standard error {detection_error} %).

{detection}

## Rare events, ties and unequal units

Coverage of 95% intervals where they are hardest, with the truth, the share of intervals that lie above and below it,
and the median width. Every population is defined in `evidence/rare_events.py` (`python -m evidence.rare_events`).
{rare_events_count} data sets a row (standard error {rare_events_error}%);
"before" is the coverage of the first version's intervals, by 200 data sets (standard error up to 3%). With 1.1%
positives the interval of CLL misses on one side; it is marked as approximate below 20 labels other than the most
frequent one.

{rare_events}

## Regression

Outcomes are 2x + s·e with s log-normal, and the model says N(2x, s²) or what differs from it; stated in
`evidence/regression.py`. Coverage of the studentised 95 % intervals:

{numbers}

Squared errors under noise of t with 5 degrees have a variance but no third moment: means of such scores settle slowly,
and no interval from a few hundred rows can know of the outcomes that have not come yet.

The fair CRPS of S draws is unbiased for the CRPS of the distribution that they are drawn from, here 1/√π = 0.56419;
that of the empirical distribution of the draws is larger by a share of 1/S.

{fair}

### Calibration over levels

Outcomes are normal, so that the population value is known in closed form. Coverage (mean width) of the 95 % intervals
of errors over 100 levels; that of `calibration_error` is the square of that of `rmsce`, times 100. {levels_count}
simulations a row (standard error {levels_error} %):

{levels}

Right predictions should lie above their null band in 2.5 % of simulations, and have p < 0.05 in as many; `se_var_ratio`
and `picp` may be off to both sides and have it in 5 %, and `picp` takes few values of few rows.
{levels_null_count} simulations (standard errors {levels_null_band} % and {levels_null_p} %):

{levels_null}

## Recalibrated variances

{variances}

## Conformal prediction

Mean coverage, in per cent, of sets of classes and intervals of numbers asked to cover 90 %, over {conformal_count}
fresh sets of n held-out and {conformal_new} new rows, with its standard error; in the heads the range that the theorem
gives. Without equal scores the mean is ⌈0.9 (n + 1)⌉/(n + 1): 93.75, 90.10 and 90.01 %. The models are wrong:
over-confident and noisy classes, a shifted mean and 0.7 of the right spread under noise of t with 4 degrees; stated
in `evidence/conformal.py`. What lies outside of the range by more than three standard errors is marked.

{conformal}

## Paired comparisons

Two models whose vectors of probabilities are exchangeable within every row; stated in `evidence/comparison.py`. Share,
in per cent, called different: by the p-value of flips of signs at 5 % / by a 95 % interval that leaves 0 out.
{comparison_count} simulations a row (standard error {comparison_p} %). *Noise*: both see the same logits through noise.
*Heavy*: they are sure of themselves beyond measure in some rows, which carry the whole NLL. *Real*: two networks on
CIFAR-10, swapped by a coin in every row.

| models | n | NLL | Brier | accuracy | CLL | CLL, flips alone |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
{comparison_noise}
{comparison_heavy}
{comparison_real}

Tests of accuracy are exact (McNemar) and err on the safe side where few rows differ. The p-value of the calibrated
log-likelihood is the larger one of flips and of the bootstrap: the rows do not show the noise of the temperatures that
were fitted on them, and by flips alone a few too many of the heavy models are called different where n is small.

The same of rows in units of ten that share a label and nearly their predictions:

| rows | n | NLL | Brier | accuracy | CLL |
| --- | ---: | ---: | ---: | ---: | ---: |
{comparison_units}

What is found of a true difference: the second model sees through more noise. Under the difference, share of
{comparison_power_count} simulations with p ≤ 5 % (the power) / with an interval that holds the difference (standard
error {comparison_power_error} %).

| models | n | NLL | Brier | accuracy | CLL |
| --- | ---: | ---: | ---: | ---: | ---: |
{power_noise}
{power_heavy}

## Deep-ensemble equivalents

An ideal pool: members share what they know of a row and add noise of their own. Fresh members, k of them, are then
worth k. Of {equivalents_count} pools of {equivalents_pool} members on fresh rows ({equivalents_draws} draws, one
repeat of halves), stated in `evidence/equivalents.py`: the range of the equivalent of k fresh members, and how often
its 95 % interval holds k (standard error {equivalents_error} %). A single member is *below* the mean of single members
about half of the time. The curve of k members flattens like 1/k² and its noise falls like 1/√(kn), so that the spread
grows like k^1.5/√n, divided by how much members differ: half as wide with four times the rows, as long as the pool is
large enough. Where members differ in quality (the logarithm of their noise has a standard deviation of 0.05 in the last
two lines), more rows do not narrow all of it. Two or three members are taken to vary as those of the pool do, and a
single one stands for itself: the more unequal members are, the less often the interval of so few holds k.

{equivalents_few}
{equivalents_many}
{equivalents_unequal}

## Posterior predictive checks

`check` replicates labels from the model; stated in `evidence/checks.py`. Labels from a random member of an ensemble,
the Bayesian reading: whatever the statistic, the randomised p-value should be uniform. Of data sets of 100 rows, 5
members and {checks_draws} replicates each: the p-value of a Kolmogorov-Smirnov test against uniform, and the share with
a two-sided p below 0.05, which is 5 % for a continuous statistic and may be off for a discrete one, as `picp` (standard
error of {checks_count} data sets: {checks_p} %). *Samples*: the outcomes are one more of {checks_draws} joint draws.
Both tables together make 48 tests, so that a KS p below 0.0002 would be a finding. The smallest, those of scores of
judged answers, were looked into: the quantiles of a million replicates of `nll`, from 2.5 % to 97.5 %, agree with those
of a million sets of labels drawn by NumPy within 1.7 standard errors.

{checks_uniform}

The same of computed laws, `draws="exact"`, and of other data sets. Those of `nll`, `brier`, `mse` and `mean` are nearly
normal ones with the exact mean, standard deviation and skewness of each member.

{checks_computed}

Which reading is right shows with the number of rows. Ten members differ in how sure they are of all rows: share of
{surprise_count} data sets with a two-sided p below 0.05 (in brackets the share that is surprised because the value is
*lower*). Where one member drew the labels, the independent reading is surprised almost always, in the end. Where the
averaged prediction drew them, the Bayesian reading finds less calibration error than any member would leave, and does
not notice anything about accuracy.

{surprise}

The example of Gopal (2021), section 3.1: θ ~ N(0, 1), y ~ N(θ, 1), so that the prediction is N(0, 2), here of 200
members. Outcomes N(0.5, 1) are what the model expects, one θ for all; its calibration error is large, and the null band
calls it miscalibrated. Outcomes N(0, 2) fit the averaged prediction, with no calibration error, and no θ explains them.
{normal_count} data sets a row.

{normal}

{real_checks}

{real_recalibration}

{real_comparison}
"""
