/* What was found out when the library was built: nothing that programs need. */
#ifndef _INCLUDED_GASNET_CONFIG_H
#define _INCLUDED_GASNET_CONFIG_H
#endif
