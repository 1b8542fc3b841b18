// Package command runs the reprieve-scheduler binary as users do. It tests the documented commands,
// and invalid flags and configurations. Invalid input must produce one line that names the remedy,
// and a non-zero exit code.
package command
