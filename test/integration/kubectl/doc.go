// Package kubectl runs kubectl-reprieve against the playground, as a user who may list and nothing else, and compares what it says with
// what the scheduler does.
package kubectl
