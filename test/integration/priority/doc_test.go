// Package priority tests how a PodGroup gets its priority, and the effects of this priority. It
// uses a real API server and scheduler.
package priority
