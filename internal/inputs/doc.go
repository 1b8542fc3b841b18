// Package inputs writes down what decisions go by, between the decisions of the scheduler's record, so that they can be decided
// again: a [Recorder] hears of all objects that deciding needs, and each decision tells it what it has seen ([Recorder.Seen]).
//
// What is on nodes, and the nodes, are taken from the snapshot that the decision went by; PodDisruptionBudgets, PriorityClasses
// and all the rest from informers, as far as these have told by then. A scheduling cycle only compares pointers and puts those
// that have changed into a queue; objects are encoded and written by the goroutine that writes the record. Nothing is ever left
// out silently: what finds no room in the queue is in the next line, and after one that could not be written the whole
// cluster is written again, as at the beginning of each file.
package inputs
