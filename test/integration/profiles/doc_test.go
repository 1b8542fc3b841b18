// Package profiles runs several profiles in one scheduler on a real API server (KEP-1451), and switches what a
// profile does while work runs.
package profiles
