// Package profiles tests a scheduler with several profiles on a real API server (KEP-1451). It also
// changes the settings of a profile while work runs.
package profiles
