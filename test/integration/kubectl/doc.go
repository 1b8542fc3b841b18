// Package kubectl runs kubectl-reprieve against the playground, as a user who may only list. It
// compares the output with the actions of the scheduler.
package kubectl
