// Package scenario makes the input of a simulation of a cluster as it is: [FromCluster] of the objects of a snapshot. What the
// objects do not say, how long work goes on, is chosen by rules that [Assumptions] names. Work of a trace comes on top ([AddTrace]).
package scenario
