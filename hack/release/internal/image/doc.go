// Package image makes container images, and an index of those for several platforms, as a layout of
// the Open Container Initiative: without Docker, and the same bytes for the same files. An image
// has one static program and licences, nothing else: no shell, no users, no certificate
// authorities, since the only server that the programs ask is named with its certificate authority.
package image
