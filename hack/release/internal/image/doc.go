// Package image makes container images, and an index of the images for several platforms, as a
// layout of the Open Container Initiative. It works without Docker, and the same files give the
// same bytes. An image has one static program and licences, but no shell, users or certificate
// authorities. The programs call only one server, whose certificate authority is configured.
package image
